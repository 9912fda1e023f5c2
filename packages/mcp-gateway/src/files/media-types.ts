import { extname } from 'node:path'
import { lookup } from 'mime-types'

const MIME_TYPE =
  /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:\s*;\s*[\w!#$&^.+-]+=(?:[\w!#$&^.+-]+|"[\w !#$&^.+:/-]*"))*$/

/** Returns a media type that is safe as a header. `undefined` for a text that is no media type (RFC 9110, section 8.3.1). */
export function mediaTypeFrom(text: string | undefined): string | undefined {
  const isType = text !== undefined && text.length <= 255 && MIME_TYPE.test(text)
  return isType ? text : undefined
}

/** How a file is shown in a result. */
export type FileKind = 'image' | 'audio' | 'text' | 'binary'

export interface FileType {
  readonly kind: FileKind
  readonly mimeType: string
}

/**
 * Returns the type of a file, by its declared type and its first 1,024 bytes. Magic bytes of an image or a sound win over a type
 * that contradicts them. SVG is text: model providers refuse it as an image.
 */
export function fileTypeOf(declared: string | undefined, head: Uint8Array): FileType {
  const named = declared === undefined ? '' : bareType(declared)
  const sniffed = sniffedTypeOf(head, named)
  if (sniffed !== undefined) return { kind: kindOf(sniffed), mimeType: sniffed }
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
  return lookup(extension) || undefined
}

interface Signature {
  readonly mimeType: string
  /** Declared types that these bytes do not contradict. @default none */
  readonly others?: RegExp
  /** Latin-1 text that the bytes hold at these offsets. */
  readonly marks: readonly (readonly [offset: number, text: string])[]
}

/** Magic bytes of the images and sounds that clients show. */
const SIGNATURES: readonly Signature[] = [
  { mimeType: 'image/png', marks: [[0, '\u0089PNG\r\n\u001a\n']] },
  { mimeType: 'image/jpeg', marks: [[0, '\u00ff\u00d8\u00ff']] },
  { mimeType: 'image/gif', marks: [[0, 'GIF87a']] },
  { mimeType: 'image/gif', marks: [[0, 'GIF89a']] },
  {
    mimeType: 'image/webp',
    marks: [
      [0, 'RIFF'],
      [8, 'WEBP'],
    ],
  },
  { mimeType: 'image/tiff', marks: [[0, 'II*\0']] },
  { mimeType: 'image/tiff', marks: [[0, 'MM\0*']] },
  { mimeType: 'image/avif', marks: [[4, 'ftypavif']] },
  { mimeType: 'image/heic', marks: [[4, 'ftypheic']] },
  {
    mimeType: 'audio/wav',
    others: /^audio\/(?:(?:x-|vnd\.)?wave?|x-pn-wav)$/,
    marks: [
      [0, 'RIFF'],
      [8, 'WAVE'],
    ],
  },
  // A tag before sounds of several types.
  { mimeType: 'audio/mpeg', others: /^audio\//, marks: [[0, 'ID3']] },
  { mimeType: 'audio/flac', others: /^audio\/x-flac$/, marks: [[0, 'fLaC']] },
  {
    mimeType: 'audio/mp4',
    others: /^audio\/(?:x-)?(?:m4[abp]|aacp?|mp4a-latm)$/,
    marks: [[4, 'ftypM4A ']],
  },
  { mimeType: 'audio/midi', others: /^audio\/(?:x-|sp-)?midi?$/, marks: [[0, 'MThd']] },
]

/**
 * Returns the image or audio type of the magic bytes, if the declared type contradicts them. A container has more than its
 * magic bytes say, so nothing contradicts `video/mp4`.
 */
function sniffedTypeOf(head: Uint8Array, named: string): string | undefined {
  if (named.startsWith('video/')) return undefined
  const start = Buffer.from(head.subarray(0, 16)).toString('latin1')
  const found = SIGNATURES.find(({ marks }) =>
    marks.every(([offset, text]) => start.startsWith(text, offset)),
  )
  // Some magic bytes are words, with which a text may begin.
  if (!found || found.mimeType === named || found.others?.test(named) || looksLikeText(head)) {
    return undefined
  }
  return found.mimeType
}

const TEXT_TYPES: ReadonlySet<string> = new Set([
  'image/svg+xml',
  ...[
    'json',
    'ld+json',
    'x-ndjson',
    'jsonl',
    'json5',
    'xml',
    'xml-dtd',
    'yaml',
    'x-yaml',
    'csv',
    'javascript',
    'x-javascript',
    'ecmascript',
    'typescript',
    'x-typescript',
    'node',
    'sql',
    'x-sql',
    'graphql',
    'toml',
    'x-toml',
    'x-sh',
    'x-shellscript',
    'x-csh',
    'x-python',
    'x-httpd-php',
    'x-perl',
    'x-ruby',
    'rtf',
    'x-tex',
    'x-latex',
    'x-www-form-urlencoded',
  ].map((name) => `application/${name}`),
])

/** Returns whether a type is text: `text/*`, SVG, and text formats such as `application/json`. */
export function isTextType(mimeType: string): boolean {
  const type = bareType(mimeType)
  return type.startsWith('text/') || TEXT_TYPES.has(type) || /\+(?:json|xml|yaml)$/.test(type)
}

/** Returns a type in lower case, without its parameters. */
export function bareType(mimeType: string): string {
  return (mimeType.split(';', 1)[0] ?? '').trim().toLowerCase()
}

/** Number of bytes that decide whether a file without a type is text. */
export const TEXT_TEST_BYTES = 1024

/** Returns whether the first 1,024 bytes are UTF-8 without NUL. The last character may be incomplete. */
export function looksLikeText(head: Uint8Array): boolean {
  const start = head.subarray(0, TEXT_TEST_BYTES)
  if (start.includes(0)) return false
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(start, { stream: true })
    return true
  } catch {
    return false
  }
}

/** Returns the bytes as text. `undefined` if they are not UTF-8. */
export function textFrom(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** Returns the first characters of a text that is cut off. Never returns half a character. */
export function previewFrom(head: Uint8Array, maxChars: number): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(head, { stream: true })
    const cut = text.slice(0, maxChars)
    return /[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut
  } catch {
    return undefined
  }
}
