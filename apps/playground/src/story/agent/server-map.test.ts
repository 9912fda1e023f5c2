import { expect, test } from 'vitest'
import { serversFrom } from './server-map.ts'

test('a plain map and the file of desktop clients mean the same', () => {
  const expected = { shop: 'https://shop.example/mcp' }
  expect(serversFrom(expected, 'servers.json')).toEqual(expected)
  expect(serversFrom({ mcpServers: { shop: { url: expected.shop } } }, 'mcp.json')).toEqual(
    expected,
  )
})

test.each([
  [[], 'servers.json: must be an object of server name → URL'],
  [{ shop: 3 }, 'servers.json: shop: must be an http(s) URL'],
  [{ shop: 'ftp://shop.example' }, 'servers.json: shop: must be an http(s) URL'],
  [{ mcpServers: { shop: { command: 'x' } } }, 'servers.json: shop: must be an http(s) URL'],
])('%j is refused, naming file and field', (value, message) => {
  expect(() => serversFrom(value, 'servers.json')).toThrow(message)
})
