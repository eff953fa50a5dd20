/** Choices of the person at this browser. They survive the page. */

export type Theme = "system" | "light" | "dark";

function read(name: string): string | null {
  try {
    return localStorage.getItem(`harken.${name}`);
  } catch {
    return null;
  }
}

function write(name: string, value: string): void {
  try {
    localStorage.setItem(`harken.${name}`, value);
  } catch {
    // A browser without storage forgets the choice.
  }
}

class Settings {
  theme = $state<Theme>((read("theme") as Theme | null) ?? "system");
  showsThoughts = $state(read("thoughts") !== "hidden");
  /** Whether texts are shown as they were written, in place of rendered Markdown. */
  isAsWritten = $state(read("text") === "written");

  /** Whether scrolling one panel moves the others to the same time. */
  isAligned = $state(read("panels") !== "free");

  setTheme(theme: Theme): void {
    this.theme = theme;
    write("theme", theme);
    applyTheme();
  }

  toggleThoughts(): void {
    this.showsThoughts = !this.showsThoughts;
    write("thoughts", this.showsThoughts ? "shown" : "hidden");
  }

  toggleAligned(): void {
    this.isAligned = !this.isAligned;
    write("panels", this.isAligned ? "aligned" : "free");
  }

  toggleAsWritten(): void {
    this.isAsWritten = !this.isAsWritten;
    write("text", this.isAsWritten ? "written" : "rendered");
  }
}

export const settings = new Settings();

export function applyTheme(): void {
  const root = document.documentElement;
  if (settings.theme === "system") root.removeAttribute("data-theme");
  else root.dataset.theme = settings.theme;
}
