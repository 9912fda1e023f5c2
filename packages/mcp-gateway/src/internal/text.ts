import { hash } from 'node:crypto'

import { canonicalJson } from '@x/internal'

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

const MAX_LEVELS = 128
const MAX_VALUES = 100_000

/**
 * Returns why a text of JSON is not read, or `undefined`. Each of its values takes time to read and to check, and each
 * level takes stack: a body of 2 MB could hold up the process for a second.
 */
export function excessOf(json: string): string | undefined {
  let levels = 0
  let values = 1
  for (let at = 0; at < json.length; at++) {
    const sign = json[at]
    if (sign === '"') {
      at = endOfText(json, at)
    } else if (sign === ']' || sign === '}') {
      levels--
    } else if (sign === '[' || sign === '{') {
      if (++levels > MAX_LEVELS) return `has more than ${MAX_LEVELS} levels`
      values++
    } else if (sign === ',') values++
    if (values > MAX_VALUES) return `has more than ${MAX_VALUES} values`
  }
  return undefined
}

/** Returns the place of the quote that ends a text of JSON. */
function endOfText(json: string, start: number): number {
  let end = start
  let escapes: number
  do {
    end = json.indexOf('"', end + 1)
    if (end === -1) return json.length
    escapes = 0
    while (json[end - 1 - escapes] === '\\') escapes++
  } while (escapes % 2 === 1)
  return end
}

/** Returns the SHA-256 of a text. It is made by way of text, because a buffer of `hash()` itself takes three times as long. */
export function sha256Of(text: string): Buffer {
  return Buffer.from(hash('sha256', text, 'binary'), 'binary')
}

/** Returns 22 characters that are the same for equal JSON values, in whatever order the keys are. */
export function hashOf(value: unknown): string {
  return sha256Of(canonicalJson(value)).toString('base64url', 0, 16)
}
