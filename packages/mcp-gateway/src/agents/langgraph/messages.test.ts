import { expect, test } from 'vitest'
import { messageStateOf } from './messages.ts'

const { signal } = new AbortController()

function fileOf(name: string, mimeType: string, data: string | Uint8Array) {
  const bytes = Buffer.from(data)
  return {
    uri: `artifact://s/${name}`,
    name,
    mimeType,
    size: bytes.byteLength,
    async *read() {
      yield bytes
    },
  }
}

async function blockOf(file: ReturnType<typeof fileOf>): Promise<unknown> {
  const input = { kind: 'message' as const, text: 'Look', files: [file] }
  const { messages } = await messageStateOf(input, signal)
  const [message] = messages as readonly { readonly content: readonly unknown[] }[]
  return message?.content[1]
}

test.each([
  ['text/markdown', '# Plan'],
  ['application/json', '{"a":1}'],
  ['application/yaml; charset=utf-8', 'a: 1'],
  ['image/svg+xml', '<svg/>'],
])('adds a file of %s to the message as text', async (type, text) => {
  const block = await blockOf(fileOf('f', type, text))
  expect(block).toEqual({ type: 'text', text: `File "f":\n${text}` })
})

test('adds an image to the message as an image', async () => {
  expect(await blockOf(fileOf('f.png', 'image/png', new Uint8Array(3)))).toMatchObject({
    type: 'image',
    mimeType: 'image/png',
    data: 'AAAA',
  })
})

test.each([
  ['application/zip', 'PK'],
  ['text/plain', Buffer.from([0x61, 0xff])],
])('names the URI of a file of %s, which models cannot read', async (type, data) => {
  const { length } = Buffer.from(data)
  expect(await blockOf(fileOf('f', type, data))).toEqual({
    type: 'text',
    text: `File "f" (${type}, ${length} bytes): artifact://s/f`,
  })
})
