import type { ContentBlock, ResourceLink } from '@modelcontextprotocol/server'
import { GatewayError } from '../errors.ts'
import { previewFrom, textFrom } from './media-types.ts'
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
  const size = { bytes: bytes.byteLength, chars: text?.length ?? 0 }
  if (!budget.spend(shownAs, size)) return undefined
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
  { bytes, chars }: ShownSize,
): ContentBlock | undefined {
  const preview = previewFrom(head.subarray(0, bytes), Math.min(PREVIEW_CHARS, chars))
  return preview ? { type: 'text', text: `${name} begins:\n${preview}` } : undefined
}

/** Room that is left in one result, for files and texts. */
export class InlineBudget implements ShownSize {
  readonly #limits: InlineLimits
  bytes: number
  chars: number

  constructor(limits: InlineLimits) {
    this.#limits = limits
    // Bytes that do not fit into any result are not kept in memory.
    this.bytes = limits.resultMaxBytes
    this.chars = limits.textMaxChars
  }

  /** Bytes of the largest file that still fits. */
  get largest(): number {
    return Math.min(this.bytes, Math.max(...Object.values(this.#limits.maxBytes)))
  }

  /** Takes the room of a file if there is enough. Returns whether there was. */
  spend(kind: FileKind, size: ShownSize): boolean {
    const maxBytes = Math.min(this.#limits.maxBytes[kind], this.bytes)
    if (size.bytes > maxBytes || size.chars > this.chars) return false
    this.take(size)
    return true
  }

  /** Takes the room of a block that is shown in any case. */
  take({ bytes, chars }: ShownSize): void {
    this.bytes = Math.max(0, this.bytes - bytes)
    this.chars = Math.max(0, this.chars - chars)
  }
}

/** Limits of one result. */
export interface InlineLimits {
  readonly maxBytes: Readonly<Record<FileKind, number>>
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
  const { resultMaxBytes } = settings
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
