import { mount } from "svelte";
import "./app.css";
import App from "./App.svelte";
import { applyTheme } from "./lib/settings.svelte";
import { startRouter } from "./lib/router.svelte";

applyTheme();
startRouter();
const target = document.getElementById("app");
if (target) mount(App, { target });
