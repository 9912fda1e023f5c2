import type { ContentBlock } from '@modelcontextprotocol/server'

/** What a file takes of a result. */
export interface ShownSize {
  /** Of the file, not of its base64. */
  readonly bytes: number
  /** Of text. */
  readonly chars: number
}

/** Of a block that is shown already. A link takes nothing. */
export function sizeOfBlock(block: ContentBlock): ShownSize {
  switch (block.type) {
    case 'text':
      return textSize(block.text)
    case 'image':
    case 'audio':
      return { bytes: Buffer.byteLength(block.data, 'base64'), chars: 0 }
    case 'resource': {
      const { resource } = block
      if ('text' in resource) return textSize(resource.text)
      return { bytes: Buffer.byteLength(resource.blob, 'base64'), chars: 0 }
    }
    case 'resource_link':
      return { bytes: 0, chars: 0 }
  }
}

/** Bytes of a block as JSON. Base64 is not copied for it. */
export function jsonBytesOf(block: ContentBlock): number {
  if (block.type === 'image' || block.type === 'audio') {
    return block.data.length + Buffer.byteLength(JSON.stringify({ ...block, data: '' }))
  }
  if (block.type !== 'resource' || !('blob' in block.resource)) {
    return Buffer.byteLength(JSON.stringify(block))
  }
  const { blob } = block.resource
  const rest = { ...block, resource: { ...block.resource, blob: '' } }
  return blob.length + Buffer.byteLength(JSON.stringify(rest))
}

function textSize(text: string): ShownSize {
  return { bytes: Buffer.byteLength(text), chars: text.length }
}
