import { wholeCharacters } from '../internal/text.ts'
import { extname } from 'node:path'
import mime from 'mime'

const MIME_TYPE =
  /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:\s*;\s*[\w!#$&^.+-]+=(?:[\w!#$&^.+-]+|"[\w !#$&^.+:/-]*"))*$/

/** Returns the text if it is a media type (RFC 9110, section 8.3.1), so that it is safe as a header. */
export function mediaTypeFrom(text: string | undefined): string | undefined {
  const isType = text !== undefined && text.length <= 255 && MIME_TYPE.test(text)
  return isType ? text : undefined
}

/** How a file is shown in a result. */
export type FileKind = 'image' | 'audio' | 'text' | 'binary'

/**
 * Returns the declared type of a file. A file without one is text or binary by its first 1,024 bytes. SVG counts as text,
 * because model providers refuse it as an image.
 */
export function fileTypeOf(
  declared: string | undefined,
  head: Uint8Array,
): { readonly kind: FileKind; readonly mimeType: string } {
  const named = declared === undefined ? '' : bareType(declared)
  if (declared === undefined || named === '' || named === 'application/octet-stream') {
    return looksLikeText(head)
      ? { kind: 'text', mimeType: 'text/plain' }
      : { kind: 'binary', mimeType: 'application/octet-stream' }
  }
  return { kind: kindOf(named), mimeType: declared }
}

function kindOf(type: string): FileKind {
  if (isTextType(type)) return 'text'
  if (type.startsWith('image/')) return 'image'
  return type.startsWith('audio/') ? 'audio' : 'binary'
}

/** Returns the type of a file name. `undefined` for an unknown or ambiguous extension: `.ts` is a program or a film. */
export function namedTypeOf(name: string): string | undefined {
  const extension = extname(name).toLowerCase()
  if (['.ts', '.mts'].includes(extension)) return undefined
  return mime.getType(extension) ?? undefined
}

/** Subtypes of `application/` that are text. */
const TEXT_FORMATS = new Set(
  [
    'json ld+json x-ndjson jsonl json5 xml xml-dtd yaml x-yaml toml x-toml csv',
    'javascript x-javascript ecmascript typescript x-typescript node sql x-sql graphql',
    'x-sh x-shellscript x-csh x-python x-httpd-php x-perl x-ruby',
    'rtf x-tex x-latex x-www-form-urlencoded',
  ].flatMap((line) => line.split(' ')),
)

/** Returns whether a type is text: `text/*`, SVG, and text formats such as `application/json`. */
export function isTextType(mimeType: string): boolean {
  const type = bareType(mimeType)
  const [kind, format = ''] = type.split('/')
  if (kind === 'text' || type === 'image/svg+xml') return true
  return (kind === 'application' && TEXT_FORMATS.has(format)) || /\+(?:json|xml|yaml)$/.test(type)
}

/** Returns a type in lower case, without its parameters. */
export function bareType(mimeType: string): string {
  return (mimeType.split(';', 1)[0] ?? '').trim().toLowerCase()
}

/** Number of bytes that decide whether a file without a type is text. */
const TEXT_TEST_BYTES = 1024

/** Returns whether the first 1,024 bytes are UTF-8 without NUL. The last character may be incomplete. */
export function looksLikeText(head: Uint8Array): boolean {
  const start = head.subarray(0, TEXT_TEST_BYTES)
  return !start.includes(0) && textFrom(start, true) !== undefined
}

/**
 * Returns the bytes as text. `undefined` if they are not UTF-8.
 *
 * @param isCut the last character may be incomplete. It is left out then
 */
export function textFrom(bytes: Uint8Array, isCut = false): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: isCut })
  } catch {
    return undefined
  }
}

/** Returns the first characters of a text that is cut off. Never returns half a character. */
export function previewFrom(head: Uint8Array, maxChars: number): string | undefined {
  const text = textFrom(head, true)
  return text === undefined ? undefined : wholeCharacters(text, maxChars)
}
