import { describe, expect, test } from 'vitest'
import { McpClientError } from './errors.ts'
import { parseServerConfig, serverLabel } from './server-config.ts'
import type { McpServerConfig } from './server-config.ts'

describe('a config', () => {
  test.each([
    { slug: 'shop' },
    { name: 'The shop', folderPath: 'Shared' },
    { url: 'https://shop.example/mcp' },
    { url: new URL('https://shop.example/mcp'), headers: {} },
    { command: 'npx', args: ['-y', 'server'], env: { TOKEN: 'x' }, cwd: '/srv' },
    { url: 'https://shop.example/mcp', type: 'http' }, // as in the files of desktop clients
    { command: 'npx', type: 'stdio', transport: 'stdio' },
    { slug: undefined, url: 'https://shop.example/mcp' } as unknown as McpServerConfig,
  ])('is accepted: %o', (config) => {
    expect(parseServerConfig(config)).toEqual(config)
  })

  test.each([
    [{}, 'none of them is given'],
    [{ folderPath: 'Shared' }, 'none of them is given'],
    [{ slug: 'shop', url: 'https://shop.example/mcp' }, 'slug and url are given'],
    [{ slug: 'shop', name: 'Shop', url: 'u' }, 'slug and name and url are given'],
    [{ uri: 'u' }, 'none of them is given. Did you mean "url" by "uri"?'],
    [{ slug: '' }, 'slug is empty'],
    [{ url: '' }, 'url is empty'],
    [{ command: '' }, 'command is empty'],
    [{ command: 'npx', url: 'https://shop.example/mcp' }, 'url and command are given'],
    [{ url: 'http://h', type: 'htp' }, 'type must be "http" for a server at a URL'],
    [{ url: 'http://h', type: 'sse' }, 'type is "sse", the transport of 2024-11-05'],
    [
      { url: 'http://h', timeout: 60 },
      '"timeout" is not part of the config of a server. Use the option "timeoutMs"',
    ],
    [{ url: 'http://h', maxRetries: 2 }, 'or createMcpTools({ servers, maxRetries })'],
  ])('is rejected: %o, because %s', (config, what) => {
    const attempt = (): void => void parseServerConfig(config as McpServerConfig)
    expect(attempt).toThrow(what)
    expect(attempt).toThrow(McpClientError)
  })

  test.each([
    [{ url: 'localhost:8080/mcp?key=secret' }, 'url must be http or https, not "localhost:"'],
    [{ url: 'https://h', headers: { a: 'secret\r\nb: c' } }, 'headers["a"] contains characters'],
    [{ command: 'npx', args: ['secret\0'] }, 'args[0] must not contain a NUL character'],
    [{ command: 'npx', env: { 'A=B': 'secret' } }, 'env["A=B"] has an invalid variable name'],
    [{ command: 'npx', cwd: './secret' }, 'cwd must be an absolute path'],
    [{ command: ' \t' }, 'command must not be blank'],
  ])('is rejected without showing values: %o, because %s', (config, what) => {
    const attempt = (): void => void parseServerConfig(config)
    expect(attempt).toThrow(what)
    expect(attempt).toThrow(McpClientError)
    expect(attempt).not.toThrow('secret')
  })
})

test.each([
  [{ slug: 'shop' }, 'shop'],
  [{ name: 'The shop' }, 'The shop'],
  [{ url: 'https://user:secret@shop.example/mcp?token=secret#secret' }, 'https://shop.example/mcp'],
  [{ command: '/home/me/bin/shop-mcp', args: ['--token=secret'] }, 'shop-mcp'],
  [{ command: 'C:\\Program Files\\shop.cmd' }, 'shop.cmd'],
  [{ url: new URL('http://[::1]:8080/mcp') }, 'http://[::1]:8080/mcp'],
  [{ url: 'not a url, token=secret' }, 'server with a malformed URL'],
  [{ url: 'ws://user:secret@shop.example/mcp?token=secret' }, 'ws://shop.example/mcp'],
])('serverLabel names %o as "%s"', (config, label) => {
  expect(serverLabel(config)).toBe(label)
})
