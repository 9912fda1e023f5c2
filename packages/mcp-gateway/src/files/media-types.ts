import { extname } from 'node:path'
import { lookup } from 'mime-types'

const MIME_TYPE =
  /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:\s*;\s*[\w!#$&^.+-]+=(?:[\w!#$&^.+-]+|"[\w !#$&^.+:/-]*"))*$/

/** It becomes a header of downloads: whatever is no media type (RFC 9110, section 8.3.1) is as good as none. */
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
 * What a file is, by its declared type and its first 1,024 bytes. Magic bytes of an image or a sound win over a type
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

/** The type that the name of a file tells; `undefined` for a name that tells none, or two: `.ts` is a program or a film. */
export function namedTypeOf(name: string): string | undefined {
  const extension = extname(name).toLowerCase()
  if (['.ts', '.mts'].includes(extension)) return undefined
  return lookup(extension) || undefined
}

interface Signature {
  readonly mimeType: string
  /** Other types that these bytes do not contradict. @default none */
  readonly others?: RegExp
  /** Latin-1 text that the bytes hold at these offsets. */
  readonly marks: readonly (readonly [offset: number, text: string])[]
}

/** How images and sounds begin, as far as clients show them. */
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
  // A tag that stands before sounds of several kinds.
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
 * The image or audio type whose magic bytes a file begins with, if a type that it was given contradicts them;
 * `undefined` for anything else. Containers hold more than their magic bytes say: `video/mp4` is contradicted by none.
 */
function sniffedTypeOf(head: Uint8Array, named: string): string | undefined {
  if (named.startsWith('video/')) return undefined
  const start = Buffer.from(head.subarray(0, 16)).toString('latin1')
  const found = SIGNATURES.find(({ marks }) =>
    marks.every(([offset, text]) => start.startsWith(text, offset)),
  )
  // Some marks are words: a text may begin with them.
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

/** Whether a type says that it is text: `text/*`, SVG, and the text formats that go by `application/*`. */
export function isTextType(mimeType: string): boolean {
  const type = bareType(mimeType)
  return type.startsWith('text/') || TEXT_TYPES.has(type) || /\+(?:json|xml|yaml)$/.test(type)
}

/** In lower case, without its parameters. */
export function bareType(mimeType: string): string {
  return (mimeType.split(';', 1)[0] ?? '').trim().toLowerCase()
}

/** Bytes that tell whether a file without a type is text. */
export const TEXT_TEST_BYTES = 1024

/** Its first 1,024 bytes are UTF-8 without NUL. A character that is cut off at the end is no fault. */
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

/** All of it as text; `undefined` if it is no UTF-8. */
export function textFrom(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** The first characters of a text of which only the beginning is there. Never half a character. */
export function previewFrom(head: Uint8Array, maxChars: number): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(head, { stream: true })
    const cut = text.slice(0, maxChars)
    return /[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut
  } catch {
    return undefined
  }
}
