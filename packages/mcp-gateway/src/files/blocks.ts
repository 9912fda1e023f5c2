import type { ContentBlock, ResourceLink } from '@modelcontextprotocol/server'
import { GatewayError } from '../errors.ts'
import { TEXT_TEST_BYTES, previewFrom } from './media-types.ts'
import type { FileKind } from './media-types.ts'
import type { InlineSettings } from '../options.ts'

/** A file as a result shows it. */
export interface ShownFile {
  readonly uri: string
  readonly name: string
  readonly mimeType: string
  /** bytes */
  readonly size: number
  readonly version: number
}

/** Number of characters that are shown of a text that is too large. */
const PREVIEW_CHARS = 2000

/** Makes a block with the file itself: its text if there is one, else its bytes. */
export function inlineBlock(
  { uri, mimeType }: ShownFile,
  { kind, bytes, text, isStored }: InlineContent,
): ContentBlock {
  if (text !== undefined) return { type: 'resource', resource: { uri, mimeType, text } }
  const data = Buffer.from(bytes).toString('base64')
  if (kind === 'image' || kind === 'audio') {
    return { type: kind, data, mimeType, ...(isStored && { _meta: { uri } }) }
  }
  return { type: 'resource', resource: { uri, mimeType, blob: data } }
}

interface InlineContent {
  readonly kind: FileKind
  readonly bytes: Uint8Array
  readonly text: string | undefined
  /** True if clients can read the URI of the file. */
  readonly isStored: boolean
}

/** Makes a block with a link to the file. */
export function linkBlock({ uri, name, mimeType, size, version }: ShownFile): ResourceLink {
  const facts = [mimeType, `${size} bytes`, ...(version > 1 ? [`version ${version}`] : [])]
  return { type: 'resource_link', uri, name, mimeType, size, description: facts.join(', ') }
}

/** Makes a block for a file that is not stored. */
export function unkeptBlock({ name, mimeType, size }: ShownFile): ContentBlock {
  const text = `The file "${name}" (${mimeType}, ${size} bytes) was made, and is not stored here.`
  return { type: 'text', text }
}

/** Makes a block with the first 2,000 characters of a text. `undefined` for other files, and if the result is full. */
export function previewBlock(
  { name }: ShownFile,
  { head, maxBytes, maxChars }: PreviewOptions,
): ContentBlock | undefined {
  const preview = previewFrom(head.subarray(0, maxBytes), Math.min(PREVIEW_CHARS, maxChars))
  return preview ? { type: 'text', text: `${name} begins:\n${preview}` } : undefined
}

interface PreviewOptions {
  /** The first bytes of the file. */
  readonly head: Uint8Array
  /** Room in the result. */
  readonly maxBytes: number
  readonly maxChars: number
}

/** Room that is left in one result. */
export class InlineBudget {
  readonly #limits: InlineLimits
  #bytes: number
  #chars: number

  constructor(limits: InlineLimits) {
    this.#limits = limits
    // Bytes that do not fit into any result are not kept in memory.
    this.#bytes = Math.min(limits.totalMaxBytes, limits.resultMaxBytes)
    this.#chars = limits.textMaxChars
  }

  /** Bytes that still fit, of any kind. */
  get bytes(): number {
    return this.#bytes
  }

  /** Characters of text that still fit. */
  get chars(): number {
    return this.#chars
  }

  /** Returns the maximum bytes that a file of a kind may have now. */
  roomFor(kind: FileKind): number {
    return Math.min(this.#limits.maxBytes[kind], this.#bytes)
  }

  /** Takes the room of a file if there is enough. Returns whether there was. */
  spend(kind: FileKind, size: ShownSize): boolean {
    if (size.bytes > this.roomFor(kind) || size.chars > this.#chars) return false
    this.take(size)
    return true
  }

  /** Takes the room of a block that is shown in any case. */
  take(size: ShownSize): void {
    this.#bytes = Math.max(0, this.#bytes - size.bytes)
    this.#chars = Math.max(0, this.#chars - size.chars)
  }
}

/** Limits of one result. */
export interface InlineLimits {
  readonly maxBytes: Readonly<Record<FileKind, number>>
  readonly totalMaxBytes: number
  readonly resultMaxBytes: number
  readonly textMaxChars: number
}

/** A client chooses its name: expressions are tried on this many characters of it. */
const MAX_NAME_CHARS = 128

/**
 * Returns a function that finds the limits for the name of a client.
 *
 * @throws GatewayError `CONFIG` for an invalid expression
 */
export function inlineLimitsFrom(settings: InlineSettings): (clientName?: string) => InlineLimits {
  const { totalMaxBytes, resultMaxBytes } = settings
  const maxBytes = {
    image: settings.imageMaxBytes,
    audio: settings.audioMaxBytes,
    text: settings.textMaxBytes,
    binary: settings.binaryMaxBytes,
  }
  const profiles = settings.clientProfiles.map((profile, index) => ({
    ...profile,
    expression: expressionFrom(profile.match, `inline.clientProfiles[${index}].match`),
  }))
  return (clientName = '') => {
    const name = clientName.slice(0, MAX_NAME_CHARS)
    const profile = profiles.find(({ expression }) => expression.test(name))
    return {
      maxBytes,
      totalMaxBytes: Math.min(totalMaxBytes, profile?.totalMaxBytes ?? totalMaxBytes),
      resultMaxBytes: Math.min(resultMaxBytes, profile?.resultMaxBytes ?? resultMaxBytes),
      textMaxChars: profile?.textMaxChars ?? Number.POSITIVE_INFINITY,
    }
  }
}

function expressionFrom(source: string, path: string): RegExp {
  try {
    return new RegExp(source)
  } catch (cause) {
    const message = `${path} must be a regular expression: ${JSON.stringify(source.slice(0, 100))} is not valid`
    throw new GatewayError('CONFIG', message, { cause, path })
  }
}

/** Python clients refuse an event of 1 MiB (1,048,576 bytes). The rest is for the envelope. */
export const RESULT_MAX_BYTES = 1_000_000

/** Size of a block in a result. */
export interface ShownSize {
  /** Bytes of the file, not of its base64. */
  readonly bytes: number
  /** Characters of the text. */
  readonly chars: number
}

/** Returns the size of a block. A link has none. */
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

function textSize(text: string): ShownSize {
  return { bytes: Buffer.byteLength(text), chars: text.length }
}

/** Bytes kept of every file, for the preview of one that is too large: 2,000 characters of up to four bytes. */
const HEAD_BYTES = 8000

/** Passes a file on, and keeps its bytes for the result if there is room for them, else only its beginning. */
export class HeldBytes {
  readonly #roomFor: (head: Uint8Array) => number
  #maxBytes: number | undefined
  #chunks: Uint8Array[] = []
  #held = 0
  #size = 0

  /** @param roomFor called once, with the first bytes of the file: as many as decide its type, if it has them */
  constructor(roomFor: (head: Uint8Array) => number) {
    this.#roomFor = roomFor
  }

  /** All bytes, after the last one. `undefined` if they do not fit. */
  get all(): Uint8Array | undefined {
    this.#maxBytes ??= this.#roomFor(Buffer.concat(this.#chunks))
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

  #take(chunk: Uint8Array): void {
    this.#size += chunk.byteLength
    if (this.#maxBytes === undefined && this.#size >= TEXT_TEST_BYTES) {
      const missing = TEXT_TEST_BYTES - this.#held
      this.#maxBytes = this.#roomFor(Buffer.concat([...this.#chunks, chunk.subarray(0, missing)]))
    }
    const maxBytes = this.#maxBytes ?? TEXT_TEST_BYTES
    const limit = this.#size <= maxBytes ? maxBytes : HEAD_BYTES
    const room = limit - this.#held
    if (room > 0) {
      // A copy, because the owner of the chunk may use its memory again.
      const kept = Uint8Array.prototype.slice.call(chunk, 0, room)
      this.#chunks.push(kept)
      this.#held += kept.byteLength
    } else if (room < 0) {
      this.#chunks = [Uint8Array.prototype.slice.call(Buffer.concat(this.#chunks), 0, limit)]
      this.#held = limit
    }
  }
}
