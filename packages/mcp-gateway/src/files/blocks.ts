import type { ContentBlock, ResourceLink } from '@modelcontextprotocol/server'
import { previewFrom, textFrom, type FileKind } from './media-types.ts'
import type { StoredFile } from './result-files.ts'
import type { InlineSettings } from '../options.ts'

/** A file as a result shows it. */
type ShownFile = Omit<StoredFile, 'createdAt'>

interface InlineFile extends Pick<ShownFile, 'uri' | 'mimeType'> {
  readonly kind: FileKind
  /** True if clients can read the URI of the file. */
  readonly isStored: boolean
}

/** Number of characters that are shown of a text that is too large. */
const PREVIEW_CHARS = 2000

/**
 * Makes a block with the file itself, and takes its room. A file with the type of a text that is not UTF-8 counts as binary.
 *
 * @returns `undefined` if it does not fit
 */
export function inlineBlock(
  { uri, mimeType, kind, isStored }: InlineFile,
  bytes: Uint8Array,
  budget: InlineBudget,
): ContentBlock | undefined {
  const text = kind === 'text' ? textFrom(bytes) : undefined
  const shownAs = kind === 'text' && text === undefined ? 'binary' : kind
  if (!budget.spend(shownAs, bytes.byteLength)) return undefined
  if (text !== undefined) return { type: 'resource', resource: { uri, mimeType, text } }
  const data = Buffer.from(bytes).toString('base64')
  if (shownAs === 'image' || shownAs === 'audio') {
    return { type: shownAs, data, mimeType, ...(isStored && { _meta: { uri } }) }
  }
  return { type: 'resource', resource: { uri, mimeType, blob: data } }
}

/** Makes a block with a link to the file. */
export function linkBlock({ uri, name, mimeType, size, version }: ShownFile): ResourceLink {
  const facts = [mimeType, `${size} bytes`, ...(version > 1 ? [`version ${version}`] : [])]
  return { type: 'resource_link', uri, name, mimeType, size, description: facts.join(', ') }
}

/** Makes a block with the first 2,000 characters of a text. `undefined` if it is not UTF-8, and if the result is full. */
export function previewBlock(
  name: string,
  head: Uint8Array,
  { bytes }: InlineBudget,
): ContentBlock | undefined {
  const preview = previewFrom(head.subarray(0, bytes), PREVIEW_CHARS)
  return preview ? { type: 'text', text: `${name} begins:\n${preview}` } : undefined
}

/** Models cannot read such a file. */
const BINARY_MAX_BYTES = 524_288

/** Room that is left in one result, for files and texts. */
export class InlineBudget {
  readonly #maxBytes: number
  /** Bytes of files, not of their base64, and of texts. */
  bytes: number

  constructor({ fileMaxBytes, resultMaxBytes }: InlineSettings) {
    this.#maxBytes = fileMaxBytes
    // Bytes that do not fit into any result are not kept in memory.
    this.bytes = resultMaxBytes
  }

  /** Bytes of the largest file that still fits. */
  get largest(): number {
    return Math.min(this.bytes, this.#maxBytes)
  }

  /** Takes the room of a file if there is enough. Returns whether there was. */
  spend(kind: FileKind, bytes: number): boolean {
    if (bytes > this.largest || (kind === 'binary' && bytes > BINARY_MAX_BYTES)) return false
    this.take(bytes)
    return true
  }

  /** Takes the room of a block that is shown in any case. */
  take(bytes: number): void {
    this.bytes = Math.max(0, this.bytes - bytes)
  }
}

/** Returns the bytes of the text or file of a block. A link has none. */
export function sizeOfBlock(block: ContentBlock): number {
  switch (block.type) {
    case 'text':
      return Buffer.byteLength(block.text)
    case 'image':
    case 'audio':
      return Buffer.byteLength(block.data, 'base64')
    case 'resource': {
      const { resource } = block
      return 'text' in resource
        ? Buffer.byteLength(resource.text)
        : Buffer.byteLength(resource.blob, 'base64')
    }
    case 'resource_link':
      return 0
  }
}

/** Returns the bytes of a block as JSON, without a copy of its base64. */
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

/** Bytes kept of every file, for its type and the preview of a large text: 2,000 characters of up to four bytes. */
const HEAD_BYTES = 8000

/** Passes a file on, and keeps a copy of its bytes up to a maximum, else only of its beginning. */
export class HeldBytes {
  readonly #maxBytes: number
  #chunks: Uint8Array[] = []
  #size = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** All bytes, after the last one. `undefined`: there are more than the maximum. */
  get all(): Uint8Array | undefined {
    return this.#size <= this.#maxBytes ? Buffer.concat(this.#chunks) : undefined
  }

  /** The first bytes, at most 8,000. */
  get head(): Uint8Array {
    return Buffer.concat(this.#chunks).subarray(0, HEAD_BYTES)
  }

  async *through(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of bytes) {
      this.#take(chunk)
      yield chunk
    }
  }

  /** Copies, because the owner of the chunk may use its memory again. */
  #take(chunk: Uint8Array): void {
    const before = this.#size
    this.#size += chunk.byteLength
    if (this.#size <= this.#maxBytes) {
      this.#chunks.push(new Uint8Array(chunk))
    } else if (before <= this.#maxBytes || before < HEAD_BYTES) {
      const beginning = Buffer.concat([...this.#chunks, chunk.subarray(0, HEAD_BYTES)])
      this.#chunks = [new Uint8Array(beginning.subarray(0, HEAD_BYTES))]
    }
  }
}
