import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import { McpClientError } from '../mcp-client-error.ts'
import { mcpJsonDirectory } from './mcp-json-directory.ts'
import type { McpServerQuery } from './server-directory.ts'

const folder = await mkdtemp(join(tmpdir(), 'mcp-json-'))
afterAll(() => rm(folder, { recursive: true }))
const path = join(folder, 'mcp.json')

async function retrieved(
  content: unknown,
  query: McpServerQuery = { slug: 'shop' },
  environment: Record<string, string | undefined> = {},
): Promise<unknown> {
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return mcpJsonDirectory(path, { environment }).retrieve(query)
}

/** The message without the path, and the error. */
async function refusal(
  ...args: Parameters<typeof retrieved>
): Promise<readonly [string, McpClientError]> {
  const error: unknown = await retrieved(...args).catch((e: unknown) => e)
  if (!(error instanceof McpClientError)) throw new Error('It was expected to be refused')
  expect(error.message.startsWith(`${path}: `)).toBe(true)
  expect(error.message).not.toContain('\n')
  expect(error.outcome).toBe('not-executed')
  return [error.message.slice(path.length + 2), error]
}

test('a remote server, by its key, which is slug and name', async () => {
  const file = {
    mcpServers: {
      shop: { type: 'http', url: 'https://shop.example/mcp', headers: { 'x-tenant': 't1' } },
    },
  }
  const server = {
    slug: 'shop',
    name: 'shop',
    mcpUrl: 'https://shop.example/mcp',
    headers: { 'x-tenant': 't1' },
  }
  expect(await retrieved(file)).toEqual(server)
  expect(await retrieved(file, { name: 'shop', folderPath: 'ignored' })).toEqual(server)
  expect(await mcpJsonDirectory(pathToFileURL(path)).retrieve({ slug: 'shop' })).toEqual(server)
})

test('a server that is started', async () => {
  const shop = { command: 'npx', args: ['-y', 'shop-mcp'], env: { KEY: 'k' }, cwd: '/srv' }
  expect(await retrieved({ mcpServers: { shop } })).toEqual({
    slug: 'shop',
    name: 'shop',
    command: 'npx',
    arguments: ['-y', 'shop-mcp'],
    environmentVariables: { KEY: 'k' },
    cwd: '/srv',
  })
})

describe('references to the environment', () => {
  test.each([
    ['${HOST}', 'shop.example'],
    ['${env:HOST}', 'shop.example'],
    ['${HOST}:${PORT:-8080}', 'shop.example:8080'],
    ['${EMPTY:-shop.example}', 'shop.example'],
    ['shop.example/${LOOP}', 'shop.example/${HOST}'], // what comes in is not expanded again
    ['shop.example/$HOST', 'shop.example/$HOST'],
  ])('%s is %s', async (text, expected) => {
    const file = { mcpServers: { shop: { url: `https://${text}` } } }
    const environment = { HOST: 'shop.example', EMPTY: '', LOOP: '${HOST}' }
    expect(await retrieved(file, undefined, environment)).toMatchObject({
      mcpUrl: `https://${expected}`,
    })
  })

  test('are replaced in headers, arguments and variables, too', async () => {
    const environment = { TOKEN: 't0k3n' }
    const remote = { url: 'https://h', headers: { authorization: 'Bearer ${TOKEN}' } }
    expect(await retrieved({ mcpServers: { shop: remote } }, undefined, environment)).toMatchObject(
      { headers: { authorization: 'Bearer t0k3n' } },
    )
    const local = { command: 'node', args: ['--key=${TOKEN}'], env: { K: '${TOKEN}' } }
    expect(await retrieved({ mcpServers: { shop: local } }, undefined, environment)).toMatchObject({
      arguments: ['--key=t0k3n'],
      environmentVariables: { K: 't0k3n' },
    })
  })

  test('to what is not set name the variable and the field', async () => {
    const shop = { url: 'https://h', headers: { authorization: 'Bearer ${TOKEN}' } }
    const [message, error] = await refusal({ mcpServers: { shop } }, undefined, {
      TOKEN: undefined,
    })
    expect(message).toBe(
      'mcpServers["shop"].headers needs the environment variable TOKEN, which is not set',
    )
    expect(error.code).toBe('CONFIG')
  })
})

test('the file is read at each lookup, not before', async () => {
  await rm(path, { force: true })
  const directory = mcpJsonDirectory(path)
  await writeFile(path, JSON.stringify({ mcpServers: { shop: { url: 'http://one' } } }))
  expect(await directory.retrieve({ slug: 'shop' })).toMatchObject({ mcpUrl: 'http://one' })
  await writeFile(path, `\uFEFF${JSON.stringify({ mcpServers: { shop: { url: 'http://two' } } })}`)
  expect(await directory.retrieve({ slug: 'shop' })).toMatchObject({ mcpUrl: 'http://two' })
})

test('a bad entry costs only itself', async () => {
  const mcpServers = { bad: { url: 'nowhere' }, shop: { url: 'https://h' } }
  expect(await retrieved({ mcpServers })).toMatchObject({ mcpUrl: 'https://h' })
})

describe('what cannot be used is one line with the path and the field', () => {
  test.each([
    ['[]', 'mcpServers is not an object of servers'],
    ['{ "mcpServers": [] }', 'mcpServers is not an object of servers'],
    [{ mcpServers: { shop: 'https://h' } }, 'mcpServers["shop"] is not an object'],
    [{ mcpServers: { shop: {} } }, 'mcpServers["shop"] needs one of url and command'],
    [
      { mcpServers: { shop: { url: 'https://h', command: 'npx' } } },
      'mcpServers["shop"] needs one of url and command',
    ],
    [
      { mcpServers: { shop: { type: 'sse', url: 'https://h' } } },
      'mcpServers["shop"].type is the HTTP+SSE transport of 2024-11-05, which is not spoken',
    ],
    [
      { mcpServers: { shop: { url: 'ws://h' } } },
      'mcpServers["shop"].url must be http or https, not "ws:"',
    ],
    [
      { mcpServers: { shop: { url: 'https://h', headers: { a: 'secret\n' } } } },
      'mcpServers["shop"].headers["a"] has characters that no header may hold (line breaks, control or non-Latin characters)',
    ],
    [{ mcpServers: { shop: { command: ' ' } } }, 'mcpServers["shop"].command is blank'],
    [
      { mcpServers: { shop: { command: 'npx', args: '-y' } } },
      'mcpServers["shop"].args is not an array of strings',
    ],
    [
      { mcpServers: { shop: { command: 'npx', env: { A: 1 } } } },
      'mcpServers["shop"].env["A"] is not a string',
    ],
  ])('%j', async (content, expected) => {
    const [message, error] = await refusal(content)
    expect(message).toBe(expected)
    expect(error).toMatchObject({ code: 'CONFIG', server: 'shop' })
  })

  test('also what is no JSON, of which nothing is repeated', async () => {
    const [message, error] = await refusal('{ "mcpServers": secret')
    expect(message).toBe('not valid JSON')
    expect(error.cause).toBeUndefined()
    const [second] = await refusal('{\n  "mcpServers": {}\n  "x": 1\n}')
    expect(second).toBe('not valid JSON (line 3 column 3)')
  })

  test('also a file that is not there', async () => {
    const missing = join(folder, 'missing.json')
    const error: unknown = await mcpJsonDirectory(missing)
      .retrieve({ slug: 'shop' })
      .catch((e: unknown) => e)
    expect(error).toMatchObject({ code: 'CONFIG', message: `${missing}: cannot be read (ENOENT)` })
    expect(error).toHaveProperty('cause.code', 'ENOENT')
  })
})

test('a server that is not there, or disabled, is NOT_FOUND', async () => {
  const mcpServers = { shop: { url: 'https://h', disabled: true }, bank: { url: 'https://h' } }
  const [message, error] = await refusal({ mcpServers }, { slug: 'shopp' })
  expect(message).toBe('No MCP server "shopp"; there are: shop, bank')
  expect(error).toMatchObject({ code: 'NOT_FOUND', server: 'shopp' })
  const [disabled] = await refusal({ mcpServers })
  expect(disabled).toBe('MCP server "shop" is disabled')
  const [prototype] = await refusal({ mcpServers }, { slug: 'constructor' })
  expect(prototype).toContain('No MCP server "constructor"')
})

test.each([
  [{ slug: 'shop', name: 'shop' }, 'both are given'],
  [{}, 'none of them is given'],
  [{ slug: '' }, 'none of them is given'],
])('%j names no server: %s', async (query, what) => {
  const error: unknown = await mcpJsonDirectory(path)
    .retrieve(query)
    .catch((e: unknown) => e)
  expect(error).toMatchObject({
    code: 'CONFIG',
    message: `A server is looked up by one of slug and name: ${what}`,
  })
})

test('a lookup that was given up rejects with the reason', async () => {
  const signal = AbortSignal.abort(new Error('enough'))
  await expect(mcpJsonDirectory(path).retrieve({ slug: 'shop', signal })).rejects.toThrow('enough')
})
