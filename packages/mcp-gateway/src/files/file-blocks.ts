import type { ContentBlock, ResourceLink } from '@modelcontextprotocol/server'

import type { FileKind } from './file-kind.ts'
import { previewFrom } from './text-type.ts'

/** A file as a result tells of it. */
export interface ShownFile {
  readonly uri: string
  readonly name: string
  readonly mimeType: string
  /** bytes */
  readonly size: number
  readonly version: number
  /** Its URI leads nowhere. @default false */
  readonly isUnkept?: boolean | undefined
}

/** Characters of a text that is too large to be shown whole. */
const PREVIEW_CHARS = 2000

/** The file itself. A text that was given is shown as it is; without one its bytes are. */
export function inlineBlock(
  file: ShownFile,
  {
    kind,
    bytes,
    text,
  }: { readonly kind: FileKind; readonly bytes: Uint8Array; readonly text?: string | undefined },
): ContentBlock {
  const { uri, mimeType, isUnkept = false } = file
  if (text !== undefined) return { type: 'resource', resource: { uri, mimeType, text } }
  const data = Buffer.from(bytes).toString('base64')
  if (kind === 'image' || kind === 'audio') {
    return { type: kind, data, mimeType, ...(!isUnkept && { _meta: { uri } }) }
  }
  return { type: 'resource', resource: { uri, mimeType, blob: data } }
}

/** Where the file is. */
export function linkBlock({ uri, name, mimeType, size, version }: ShownFile): ResourceLink {
  const facts = [mimeType, `${size} bytes`, ...(version > 1 ? [`version ${version}`] : [])]
  return { type: 'resource_link', uri, name, mimeType, size, description: facts.join(', ') }
}

/** In place of a file that nobody can read later. */
export function unkeptBlock({ name, mimeType, size }: ShownFile): ContentBlock {
  const text = `The file "${name}" (${mimeType}, ${size} bytes) was made, and is not kept here.`
  return { type: 'text', text }
}

/** How a text begins that is not shown itself: at most 2,000 characters. `undefined`: there is no room, or no text. */
export function previewBlock(
  { name }: ShownFile,
  { head, maxBytes, maxChars }: PreviewOptions,
): ContentBlock | undefined {
  const preview = previewFrom(head.subarray(0, maxBytes), Math.min(PREVIEW_CHARS, maxChars))
  return preview ? { type: 'text', text: `${name} begins:\n${preview}` } : undefined
}

interface PreviewOptions {
  /** Its first bytes. */
  readonly head: Uint8Array
  /** What the result has room for. */
  readonly maxBytes: number
  readonly maxChars: number
}
