import type { ContentBlock } from '@langchain/core/messages'
import type { SchemaProjection } from './schema-projection.ts'

/**
 * Types that a model may get. A provider refuses a request with another type, with data of another type than it
 * says, and with an empty image; and all later requests of the thread, which contain it as well (claude-code#58330,
 * langchainjs#11156).
 */
const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']
/** LangChain sends a PDF in a result to OpenAI as its base64 text, so only the other providers get one. */
const PDF = 'application/pdf'
const COMMON: ReadonlySet<string> = new Set(IMAGES)
const TYPES: ReadonlyMap<SchemaProjection, ReadonlySet<string>> = new Map([
  ['common', COMMON],
  ['openai', COMMON],
  ['anthropic', new Set([...IMAGES, PDF])],
  [
    'google', // Gemini has no GIF
    new Set([
      ...IMAGES.filter((type) => type !== 'image/gif'),
      'image/heic',
      PDF,
      'audio/wav',
      'audio/mpeg',
      'audio/flac',
      'audio/ogg',
    ]),
  ],
])

/** Starts of files, in Latin-1. */
const MAGIC: readonly (readonly [start: RegExp, type: string])[] = [
  [/^\x89PNG\r\n/, 'image/png'],
  [/^\xFF\xD8\xFF/, 'image/jpeg'],
  [/^GIF8[79]a/, 'image/gif'],
  [/^RIFF.{4}WEBP/s, 'image/webp'],
  [/^RIFF.{4}WAVE/s, 'audio/wav'],
  [/^.{4}ftyp(heic|heix|mif1|msf1)/s, 'image/heic'],
  [/^(ID3|\xFF[\xE2\xE3\xF2\xF3\xFA\xFB])/, 'audio/mpeg'],
  [/^fLaC/, 'audio/flac'],
  [/^OggS/, 'audio/ogg'],
  [/^%PDF-/, PDF],
  [/^(\xEF\xBB\xBF)?\s*(<!doctype html|<html)/i, 'text/html'],
  [/^(\xEF\xBB\xBF)?\s*(<\?xml[^>]*>\s*)?(<!--.*-->\s*)?<svg/is, 'image/svg+xml'],
]

/** Types of files that are text. */
const TEXT = /^text\/|[/+](json|xml|yaml|csv)\b|^application\/(javascript|x-sh|sql|toml)\b/

/** Characters of base64 that are decoded to find the type. */
const HEAD = 1024

const TEXT_LIMIT = 4 * 1024 * 1024

/**
 * Returns a block of media as a model may get it: with the type that its data has, as text if it is a text file, and
 * as a note if the provider would refuse it. `'none'` leaves all blocks alone, and a function counts as `'common'`.
 */
export function mediaForModel(block: ContentBlock, projection: SchemaProjection): ContentBlock {
  const { type, data, mimeType } = block
  if (projection === 'none' || type === 'text' || typeof data !== 'string') return block
  const declared = typeof mimeType === 'string' ? mimeType.toLowerCase() : 'no type'
  if (type === 'file' && TEXT.test(declared) && data.length <= TEXT_LIMIT) {
    const text = textFrom(data)
    if (text !== undefined) return { type: 'text', text: `${titleOf(block)}${text}` }
  }
  const found = typeIn(data)
  const accepted = TYPES.get(projection) ?? COMMON
  if (found !== undefined && accepted.has(found)) {
    const kind = mediaTypeOf(found)
    return { ...block, type: kind, mimeType: found }
  }
  const bytes = Buffer.byteLength(data, 'base64')
  return {
    type: 'text',
    text: `[Left out: ${type} (${declared}) of ${bytes} bytes: ${reasonFor(data, accepted.has(declared), found)}. The application has it.]`,
  }
}

function reasonFor(data: string, isAccepted: boolean, found: string | undefined): string {
  if (data.trim() === '') return 'it is empty'
  if (found !== undefined) return `its data is ${found}, which the model does not take`
  return isAccepted ? 'its data is not of this type' : 'the model does not take this type'
}

/** Returns the type that the data shows, or undefined. */
function typeIn(data: string): string | undefined {
  const start = Buffer.from(data.slice(0, HEAD), 'base64').toString('latin1')
  return MAGIC.find(([magic]) => magic.test(start))?.[1]
}

/** Returns the text in base64 data, or undefined if it is not UTF-8. */
function textFrom(data: string): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(data, 'base64'))
  } catch {
    return undefined
  }
}

function titleOf({ metadata }: ContentBlock): string {
  const uri = typeof metadata === 'object' && metadata !== null && 'uri' in metadata && metadata.uri
  return typeof uri === 'string' ? `Resource ${uri}:\n` : ''
}

/** Returns the type of the block for a MIME type. */
export function mediaTypeOf(mimeType: string): 'image' | 'audio' | 'file' {
  if (mimeType.startsWith('image/')) return 'image'
  return mimeType.startsWith('audio/') ? 'audio' : 'file'
}
