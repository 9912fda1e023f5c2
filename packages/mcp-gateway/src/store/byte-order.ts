/** Order of two texts by the bytes of their UTF-8, as SQLite and Redis have it. */
export function compareBytes(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let at = 0; at < length; at++) {
    const [left, right] = [a.charCodeAt(at), b.charCodeAt(at)]
    if (left !== right) return ranked(left) - ranked(right)
  }
  return a.length - b.length
}

/** Surrogates stand for characters beyond U+FFFF, and so come after U+E000 to U+FFFF. */
function ranked(unit: number): number {
  if (unit < 0xd800) return unit
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800
}
