import { looksLikeText } from './text-type.ts'

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
export function sniffedTypeOf(head: Uint8Array, named: string): string | undefined {
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
