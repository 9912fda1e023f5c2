import { sniffedTypeOf } from './sniffed-type.ts'
import { bareType, isTextType, looksLikeText } from './text-type.ts'

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
