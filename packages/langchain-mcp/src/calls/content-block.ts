import type { ContentBlock } from '@langchain/core/messages'
import { isRecord } from '@x/internal'

/** Of media whose server does not say what they are. */
export const UNKNOWN_TYPE = 'application/octet-stream'

/** A block of a result, a prompt or anything else that has content, as LangChain's standard block. */
export function contentBlockFrom(block: unknown): ContentBlock {
  if (!isRecord(block)) return textBlock(JSON.stringify(block) ?? '')
  const { type, text, data, mimeType } = block
  if (type === 'text' && typeof text === 'string') return textBlock(text)
  if ((type === 'image' || type === 'audio') && typeof data === 'string') {
    return { type, data, mimeType: typeof mimeType === 'string' ? mimeType : UNKNOWN_TYPE }
  }
  if (type === 'resource' && isRecord(block['resource'])) return resourceBlock(block['resource'])
  if (type === 'resource_link') return linkBlock(block)
  return textBlock(JSON.stringify(block))
}

function resourceBlock(resource: Readonly<Record<string, unknown>>): ContentBlock {
  const { uri, mimeType, text, blob } = resource
  const where = typeof uri === 'string' ? uri : 'without address'
  if (typeof text === 'string') return textBlock(`Resource ${where}:\n${text}`)
  if (typeof blob === 'string') {
    const mime = typeof mimeType === 'string' ? mimeType : UNKNOWN_TYPE
    return { type: mediaTypeOf(mime), data: blob, mimeType: mime, metadata: { uri: where } }
  }
  return textBlock(JSON.stringify({ type: 'resource', resource }))
}

function mediaTypeOf(mimeType: string): 'image' | 'audio' | 'file' {
  if (mimeType.startsWith('image/')) return 'image'
  return mimeType.startsWith('audio/') ? 'audio' : 'file'
}

function linkBlock(link: Readonly<Record<string, unknown>>): ContentBlock {
  const { uri, name, title, mimeType, description } = link
  const label = [title, name].find((value) => typeof value === 'string') ?? 'unnamed'
  const type = typeof mimeType === 'string' ? ` (${mimeType})` : ''
  const about = typeof description === 'string' ? `: ${description}` : ''
  return textBlock(`Resource link "${label}" ${String(uri)}${type}${about}`)
}

export function textBlock(text: string): ContentBlock.Text {
  return { type: 'text', text }
}

/** Python servers send absent fields as `null`. Fields of the block only: inside `_meta` and data a `null` means something. */
export function withoutNulls(block: unknown): unknown {
  if (!isRecord(block) || !hasNulls(block)) return block
  const fields = Object.entries(block).filter(([, field]) => field !== null && field !== undefined)
  return Object.fromEntries(
    fields.map(([key, field]) => [key, key === 'resource' ? withoutNulls(field) : field]),
  )
}

function hasNulls(block: Readonly<Record<string, unknown>>): boolean {
  for (const key in block) {
    const field = block[key]
    if (field === null || field === undefined) return true
    if (key === 'resource' && isRecord(field) && hasNulls(field)) return true
  }
  return false
}
