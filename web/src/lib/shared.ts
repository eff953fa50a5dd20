/** The shared copy of a session that this page is in. Null on the page of `harken ui`. */

import type { SharedCopy } from "../api/file";

interface Shared {
  copy: SharedCopy | null;
  /** The licenses of the libraries: their script is in the file, so these are too. */
  licenses: string;
}

export const shared: Shared = { copy: null, licenses: "" };
