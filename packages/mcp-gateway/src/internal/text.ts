/** Returns the first UTF-16 units of a text, without half of a character at the end. */
export function wholeCharacters(text: string, length: number): string {
  if (length >= text.length) return text
  const last = text.charCodeAt(length - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length)
}

/** Returns a beginning of a text that has at most, and nearly, so many bytes. */
export function beginningOf(
  text: string,
  maxBytes: number,
  bytesOf: (text: string) => number,
): string {
  let length = maxBytes
  for (;;) {
    const beginning = wholeCharacters(text, length)
    const bytes = bytesOf(beginning)
    if (bytes <= maxBytes || beginning === '') return beginning
    length = Math.max(0, Math.floor((beginning.length * maxBytes) / bytes) - 1)
  }
}

/** Returns the value of a text that is JSON. `undefined` for all else. */
export function valueFromJson(text: unknown): unknown {
  if (typeof text !== 'string') return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Returns at most `maxLength` UTF-16 units of a text. The last one of a text that is cut is `…`. */
export function shortened(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${wholeCharacters(text, maxLength - 1)}…`
}
