/** Scroll positions of lists by name, so that `back` shows a list where it was left. */

import type { VirtualItem } from "@tanstack/virtual-core";

export const positions = new Map<string, { offset: number; measurements: VirtualItem[] }>();
