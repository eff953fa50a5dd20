export async function walk() {}
