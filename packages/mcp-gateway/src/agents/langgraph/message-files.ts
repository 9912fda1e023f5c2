import { isRecord } from '@x/internal'
import { extension } from 'mime-types'

import type { OutputFile } from '../../files/result-files.ts'
import { bytesFrom } from './custom-event.ts'

const FILE_TYPES: readonly unknown[] = [
  'image',
  'audio',
  'video',
  'file',
  'image_url',
  'text-plain',
]

/** The images, sounds and files of a message, of LangChain's standard blocks and their older forms. */
export function filesOf(content: unknown): readonly OutputFile[] {
  if (!Array.isArray(content)) return []
  const files: OutputFile[] = []
  for (const block of content) {
    if (!isRecord(block) || !FILE_TYPES.includes(block['type'])) continue
    const file = fileFrom(block, files.length + 1)
    if (file !== undefined) files.push(file)
  }
  return files
}

function fileFrom(block: Readonly<Record<string, unknown>>, count: number): OutputFile | undefined {
  const declared = textOf(block['mimeType']) ?? textOf(block['mime_type'])
  const found = contentOf(block)
  if (found === undefined) return undefined
  const mimeType = declared ?? found.mimeType
  return { name: nameOf(block, mimeType, count), mimeType, data: found.data }
}

interface Found {
  readonly data: OutputFile['data']
  readonly mimeType?: string | undefined
}

function contentOf(block: Readonly<Record<string, unknown>>): Found | undefined {
  const { data, text } = block
  const bytes = bytesFrom(data)
  if (bytes !== undefined) return { data: bytes }
  if (typeof data === 'string') return dataUrlFrom(data) ?? { data: Buffer.from(data, 'base64') }
  if (typeof text === 'string') return { data: Buffer.from(text), mimeType: 'text/plain' }
  const nested = block['image_url']
  const url = textOf(block['url']) ?? textOf(isRecord(nested) ? nested['url'] : nested)
  if (url === undefined) return undefined
  return dataUrlFrom(url) ?? { data: { url } }
}

/** @returns `undefined` for any other URL */
function dataUrlFrom(url: string): Found | undefined {
  const match = /^data:([^;,]*)((?:;[^;,]*)*),/.exec(url)
  if (match === null) return undefined
  const body = url.slice(match[0].length)
  const isBase64 = match[2]?.endsWith(';base64') === true
  const mimeType = match[1] === '' ? undefined : match[1]
  try {
    const data = isBase64 ? Buffer.from(body, 'base64') : Buffer.from(decodeURIComponent(body))
    return { data, mimeType }
  } catch {
    return undefined
  }
}

function nameOf(
  block: Readonly<Record<string, unknown>>,
  mimeType: string | undefined,
  count: number,
): string {
  const metadata = isRecord(block['metadata']) ? block['metadata'] : {}
  const given =
    textOf(block['filename']) ??
    textOf(block['name']) ??
    textOf(metadata['filename']) ??
    textOf(metadata['name'])
  if (given !== undefined) return given
  const kind = block['type'] === 'image_url' ? 'image' : String(block['type'])
  const ending = mimeType === undefined ? false : extension(mimeType)
  return `${kind}-${count}${ending === false ? '' : `.${ending}`}`
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
