/** Reads all bytes of a body. Returns `undefined`, and stops reading, when there are more than `maxBytes`. */
export async function readAtMost(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.byteLength
    if (bytes > maxBytes) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** Compares two texts by their bytes in UTF-8, as databases do. `sort()` alone compares UTF-16 units. */
export function compareBytes(one: string, other: string): number {
  const length = Math.min(one.length, other.length)
  for (let at = 0; at < length; at++) {
    const [left, right] = [one.charCodeAt(at), other.charCodeAt(at)]
    if (left !== right) return rank(left) - rank(right)
  }
  return one.length - other.length
}

/** Surrogates stand for characters beyond U+FFFF, which come after U+E000 to U+FFFF. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800
}
