import { describe, expect, test } from 'vitest'
import { toolOutputFrom, type ToolOutput } from './tool-output.ts'
import type { SchemaProjection } from './schema-projection.ts'

const base64 = (text: string): string => Buffer.from(text, 'latin1').toString('base64')
const PNG = base64('\x89PNG\r\n\x1A\n data')
const JPEG = base64('\xFF\xD8\xFF\xE0 data')
const PDF = base64('%PDF-1.7 data')
const SVG = base64('<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>')
const HTML = base64('<!DOCTYPE html><html><body>Not found</body></html>')
const DOCX = base64('PK\x03\x04 data')
const WAV = base64('RIFF\x01\x02\x03\x04WAVEfmt ')

const image = (data: string, mimeType: string): object => ({ type: 'image', data, mimeType })
const file = (blob: string, mimeType?: string): object => ({
  type: 'resource',
  resource: { uri: 'file:///a', blob, mimeType },
})

function shown(block: object, projection?: SchemaProjection): ToolOutput {
  return toolOutputFrom({ content: [block] }, { schemaFor: projection })
}

describe('left out with a reason, and kept in the artifact:', () => {
  test.each<[what: string, block: object, reason: RegExp]>([
    ['SVG (vscode#311732)', image(SVG, 'image/svg+xml'), /its data is image\/svg\+xml/],
    ['SVG as PNG', image(SVG, 'image/png'), /its data is image\/svg\+xml/],
    ['HTML as PNG (claude-code#58330)', image(HTML, 'image/png'), /its data is text\/html/],
    ['an empty image', image('', 'image/png'), /of 0 bytes: it is empty/],
    ['an image of spaces', image(' \n', 'image/png'), /it is empty/],
    ['bytes that are no image', image(base64('hello'), 'image/jpeg'), /not of this type/],
    ['a million of padding', image(`${'='.repeat(1_000_000)}a`, 'image/png'), /not of this type/],
    ['BMP', image(base64('BM data'), 'image/bmp'), /does not take this type/],
    ['TIFF', image(base64('II*\0 data'), 'image/tiff'), /does not take this type/],
    [
      'docx (langchainjs#11156)',
      file(DOCX, 'application/vnd.openxmlformats-officedocument.wordprocessingml.document'),
      /wordprocessingml.*does not take this type/,
    ],
    [
      'bytes of unknown type',
      file(base64('\x00\x01'), 'application/octet-stream'),
      /does not take this type/,
    ],
    ['a blob without a type', file(base64('\x00\x01')), /octet-stream/],
    ['HTML as PDF', file(HTML, 'application/pdf'), /its data is text\/html/],
    ['an empty PDF', file('', 'application/pdf'), /it is empty/],
    [
      'PDF, which LangChain sends to OpenAI as text',
      file(PDF, 'application/pdf'),
      /application\/pdf/,
    ],
    ['audio', { type: 'audio', data: WAV, mimeType: 'audio/wav' }, /its data is audio\/wav/],
    ['text that is not UTF-8', file(base64('\xFF\xFE'), 'text/csv'), /does not take this type/],
  ])('%s', (_what, block, reason) => {
    const { content, artifact } = shown(block)
    expect(content).toMatch(new RegExp(`^\\[Left out: .*${reason.source}`))
    expect(JSON.stringify(artifact)).toContain(JSON.stringify(block).slice(1, -1))
  })
})

test.each<[what: string, block: object, type: string, mimeType: string]>([
  ['an image of its type', image(PNG, 'image/png'), 'image', 'image/png'],
  ['JPEG as PNG', image(JPEG, 'image/png'), 'image', 'image/jpeg'],
  ['image/jpg', image(JPEG, 'image/jpg'), 'image', 'image/jpeg'],
  ['an image without a type', image(PNG, 'image/*'), 'image', 'image/png'],
  ['an image as bytes', file(PNG, 'application/octet-stream'), 'image', 'image/png'],
  ['PDF', file(PDF, 'application/pdf'), 'file', 'application/pdf'],
  ['PDF as bytes', file(PDF), 'file', 'application/pdf'],
])('a model gets %s with the type that its data has', (...[, block, type, mimeType]) => {
  expect(shown(block, 'anthropic').content).toMatchObject([{ type, mimeType }])
})

test.each(['text/csv', 'text/plain; charset=utf-8', 'application/json', 'image/x+xml'])(
  'a model gets a file of type %s as text',
  (mimeType) => {
    const isFile = !mimeType.startsWith('image/')
    const { content } = shown(file(base64('a,b\n1,2'), isFile ? mimeType : 'application/xml'))
    expect(content).toBe('Resource file:///a:\na,b\n1,2')
  },
)

test.each<[SchemaProjection, object, string]>([
  ['google', { type: 'audio', data: WAV, mimeType: 'audio/x-wav' }, 'audio'],
  ['google', image(base64('GIF89a data'), 'image/gif'), 'text'],
  ['openai', image(base64('GIF89a data'), 'image/gif'), 'image'],
  ['anthropic', { type: 'audio', data: WAV, mimeType: 'audio/wav' }, 'text'],
  [(schema) => ({ ...schema }), image(SVG, 'image/svg+xml'), 'text'],
  ['none', image(SVG, 'image/svg+xml'), 'image'],
  ['none', file(DOCX), 'file'],
])('the projection %s decides: %j', (projection, block, type) => {
  const { content } = shown(block, projection)
  const [first] = content
  expect(typeof first === 'object' ? first.type : 'text').toBe(type)
})
