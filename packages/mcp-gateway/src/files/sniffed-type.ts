interface Signature {
  readonly mimeType: string
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
    marks: [
      [0, 'RIFF'],
      [8, 'WAVE'],
    ],
  },
  { mimeType: 'audio/mpeg', marks: [[0, 'ID3']] },
  { mimeType: 'audio/flac', marks: [[0, 'fLaC']] },
  { mimeType: 'audio/mp4', marks: [[4, 'ftypM4A ']] },
  { mimeType: 'audio/midi', marks: [[0, 'MThd']] },
]

/** The image or audio type whose magic bytes a file begins with; `undefined` for anything else. */
export function sniffedTypeOf(head: Uint8Array): string | undefined {
  const start = Buffer.from(head.subarray(0, 16)).toString('latin1')
  return SIGNATURES.find(({ marks }) =>
    marks.every(([offset, text]) => start.startsWith(text, offset)),
  )?.mimeType
}
