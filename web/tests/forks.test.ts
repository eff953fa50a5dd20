import { describe, expect, it } from "vitest";
import { forkCommand, quote } from "../src/lib/forks";

describe("the command of a fork", () => {
  it("has the changes as options", () => {
    expect(forkCommand("harken fork demo --at msg_7", { at: "msg_7", before: true, name: "calm" })).toBe(
      "harken fork demo --at msg_7 --before --name calm",
    );
    expect(
      forkCommand("harken fork demo", { at: null, edit: "It's $HOME\nhere", model: "a/b", without_hooks: ["no push"] }),
    ).toBe(`harken fork demo --edit 'It'"'"'s $HOME\nhere' --model a/b --without-hook 'no push'`);
  });
  it("quotes only words that a shell would change", () => {
    expect(quote("a/b:c-1")).toBe("a/b:c-1");
    expect(quote("")).toBe("''");
    expect(quote("a;b")).toBe("'a;b'");
  });
});
