import type { ContentBlock } from '@modelcontextprotocol/server'

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
  const { uri, mimeType } = file
  if (text !== undefined) return { type: 'resource', resource: { uri, mimeType, text } }
  const data = Buffer.from(bytes).toString('base64')
  if (kind === 'image' || kind === 'audio') return { type: kind, data, mimeType, _meta: { uri } }
  return { type: 'resource', resource: { uri, mimeType, blob: data } }
}

/** Where the file is; of a text also how it begins. */
export function linkBlocks(
  file: ShownFile,
  { kind, head, previewChars = PREVIEW_CHARS }: LinkOptions,
): readonly ContentBlock[] {
  const { uri, name, mimeType, size, version } = file
  const facts = [mimeType, `${size} bytes`, ...(version > 1 ? [`version ${version}`] : [])]
  const link: ContentBlock = {
    type: 'resource_link',
    uri,
    name,
    mimeType,
    size,
    description: facts.join(', '),
  }
  const chars = Math.min(PREVIEW_CHARS, previewChars)
  const preview = kind === 'text' && chars > 0 ? previewFrom(head, chars) : undefined
  if (!preview) return [link]
  return [link, { type: 'text', text: `${name} begins:\n${preview}` }]
}

interface LinkOptions {
  readonly kind: FileKind
  readonly head: Uint8Array
  /** @default 2000, which is also the most */
  readonly previewChars?: number | undefined
}
