import { describe, expect, test } from 'vitest'
import {
  fileTypeOf,
  isTextType,
  looksLikeText,
  namedTypeOf,
  previewFrom,
  textFrom,
} from './media-types.ts'

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13])
const PDF = Buffer.from('%PDF-1.7\n\u0000', 'latin1')
const TEXT = Buffer.from('Grüße\n')

describe('the type of a file with the declared type', () => {
  test.for([
    ['image/png', PNG, 'image', 'image/png'],
    ['image/jpeg', PNG, 'image', 'image/jpeg'],
    ['text/plain', PNG, 'text', 'text/plain'],
    ['audio/x-wav', PNG, 'audio', 'audio/x-wav'],
    [undefined, PNG, 'binary', 'application/octet-stream'],
    ['video/mp4', PNG, 'binary', 'video/mp4'],
    ['image/svg+xml', Buffer.from('<svg/>'), 'text', 'image/svg+xml'],
    ['Application/JSON; charset=utf-8', TEXT, 'text', 'Application/JSON; charset=utf-8'],
    ['application/octet-stream', TEXT, 'text', 'text/plain'],
    [undefined, TEXT, 'text', 'text/plain'],
    [undefined, PDF, 'binary', 'application/octet-stream'],
    ['application/pdf', PDF, 'binary', 'application/pdf'],
    ['', Buffer.alloc(0), 'text', 'text/plain'],
  ] as const)('%s', ([declared, head, kind, mimeType]) => {
    expect(fileTypeOf(declared, head)).toEqual({ kind, mimeType })
  })
})

describe('text', () => {
  test.for([
    'text/x-anything',
    'application/json',
    'application/problem+json',
    'application/atom+xml',
    'application/vnd.oai.openapi+yaml',
    'application/yaml',
    'application/javascript',
    'application/typescript',
    'application/sql',
    'application/graphql',
    'application/toml',
    'application/x-sh',
  ])('%s', (type) => {
    expect(isTextType(type)).toBe(true)
  })

  test.for(['application/zip', 'application/pdf', 'image/png', 'video/mp4', ''])(
    'not %s',
    (type) => {
      expect(isTextType(type)).toBe(false)
    },
  )

  test('is tested on 1,024 bytes, whose last character may be cut', () => {
    expect(looksLikeText(Buffer.from(`${'a'.repeat(1023)}é and more`))).toBe(true)
    expect(looksLikeText(Buffer.concat([Buffer.alloc(1024, 'a'), Buffer.from([0, 0xff])]))).toBe(
      true,
    )
    expect(looksLikeText(Buffer.from([0x61, 0xff, 0x62]))).toBe(false)
    expect(looksLikeText(Buffer.from('a\0b'))).toBe(false)
  })

  test('is decoded whole or not at all', () => {
    expect(textFrom(Buffer.from('Grüße'))).toBe('Grüße')
    expect(textFrom(Buffer.from([0x61, 0xc3]))).toBeUndefined()
  })

  test('is previewed without half a character', () => {
    expect(previewFrom(Buffer.from('ab😀'), 3)).toBe('ab')
    expect(previewFrom(Buffer.from('é').subarray(0, 1), 9)).toBe('')
    expect(previewFrom(Buffer.from([0xff]), 9)).toBeUndefined()
  })
})

test.each([
  ['notes.md', 'text/markdown'],
  ['DATA.JSON', 'application/json'],
  ['archive.tar.gz', 'application/gzip'],
  ['main.ts', undefined],
  ['README', undefined],
  ['.env', undefined],
])('%s: %s', (name, type) => {
  expect(namedTypeOf(name)).toBe(type)
})
