/** The proof that a server has the token of a link, so that the token is sent to no other program at its port. */

const PREFIX = "harken ui proof:";
const NONCE_BYTES = 32;

/** A random nonce, as hexadecimal digits. */
export function makeNonce(): string {
  return toHex(crypto.getRandomValues(new Uint8Array(NONCE_BYTES)));
}

/** Return the first of these tokens for which the server's proof is right, or null. */
export async function findProvenToken(tokens: readonly string[], nonce: string, proof: string): Promise<string | null> {
  for (const token of tokens) if (await isProof(token, nonce, proof)) return token;
  return null;
}

async function isProof(token: string, nonce: string, proof: string): Promise<boolean> {
  const encoder = new TextEncoder();
  const key = await crypto.subtle.importKey("raw", encoder.encode(token), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  return crypto.subtle.verify("HMAC", key, fromHex(proof), encoder.encode(PREFIX + nonce));
}

function toHex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Decode hexadecimal digits; other text is an empty proof, which is never right. */
function fromHex(text: string): Uint8Array<ArrayBuffer> {
  if (!/^(?:[0-9a-f]{2})+$/.test(text)) return new Uint8Array();
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}
