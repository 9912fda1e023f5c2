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

/**
 * Returns the text of bytes, such as those of a file that a person has written, without a byte order mark. `>` of Windows
 * PowerShell 5 writes UTF-16, and some editors on Windows write the mark.
 */
export function decodeText(bytes: Uint8Array): string {
  const isUtf16 = bytes[0] === 0xff && bytes[1] === 0xfe
  return new TextDecoder(isUtf16 ? 'utf-16le' : 'utf-8').decode(bytes)
}

/** Units that are elsewhere in the order of UTF-16 than in that of UTF-8: surrogates, and those after them. */
const MOVED = /[\ud800-\uffff]/g

/** Surrogates stand for characters beyond U+FFFF, which come after U+E000 to U+FFFF. */
function unitMovedTo(unit: string): string {
  const code = unit.charCodeAt(0)
  return String.fromCharCode(code < 0xe000 ? code + 0x2000 : code - 0x800)
}

function unitMovedFrom(unit: string): string {
  const code = unit.charCodeAt(0)
  return String.fromCharCode(code < 0xf800 ? code + 0x800 : code - 0x2000)
}

/**
 * Returns a text that stands for another one: `<` gives these texts the order that the others have by their bytes in
 * UTF-8, as in databases. Most texts stand for themselves.
 */
export function toByteOrder(text: string): string {
  return text.replaceAll(MOVED, unitMovedTo)
}

/** Returns the text for which another one stands. */
export function fromByteOrder(ordered: string): string {
  return ordered.replaceAll(MOVED, unitMovedFrom)
}

/** Compares two texts by their bytes in UTF-8, as databases do. `sort()` alone compares UTF-16 units. */
export function compareBytes(one: string, other: string): number {
  const [left, right] = [toByteOrder(one), toByteOrder(other)]
  if (left === right) return 0
  return left < right ? -1 : 1
}
