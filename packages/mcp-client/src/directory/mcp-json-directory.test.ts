import { withoutErrorLink } from '@x/internal'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { McpClientError } from '../errors.ts'
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
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value)
  return mcpJsonDirectory(path).retrieve(query)
}

/** Returns the message after the path, without the address of its section, and the error. */
async function refusal(
  ...args: Parameters<typeof retrieved>
): Promise<readonly [string, McpClientError]> {
  const error: unknown = await retrieved(...args).catch((e: unknown) => e)
  if (!(error instanceof McpClientError)) throw new Error('It was expected to be refused')
  expect(error.message).toContain(path)
  expect(error.message).not.toContain('\n')
  expect(error.outcome).toBe('not-executed')
  const [, text = ''] = withoutErrorLink(error.message).split(path)
  return [text.replace(/^:? /, ''), error]
}

test('returns a remote server by its key, which is both slug and name', async () => {
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

test('returns a server with a command', async () => {
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
    ['shop.example/${LOOP}', 'shop.example/${HOST}'], // the value of a variable is not expanded
    ['shop.example/$HOST', 'shop.example/$HOST'],
  ])('expand %s to %s', async (text, expected) => {
    const file = { mcpServers: { shop: { url: `https://${text}` } } }
    const environment = { HOST: 'shop.example', EMPTY: '', LOOP: '${HOST}' }
    expect(await retrieved(file, undefined, environment)).toMatchObject({
      mcpUrl: `https://${expected}`,
    })
  })

  test('are expanded in headers, arguments and variables', async () => {
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

  test('to a variable that is not set are an error with the variable and the field', async () => {
    const shop = { url: 'https://h', headers: { authorization: 'Bearer ${TOKEN}' } }
    const [message, error] = await refusal({ mcpServers: { shop } }, undefined, {
      TOKEN: undefined,
    })
    expect(message).toBe('mcpServers["shop"].headers needs the environment variable TOKEN: set it')
    expect(error.code).toBe('CONFIG')
  })
})

test('reads the file at each lookup', async () => {
  await rm(path, { force: true })
  const directory = mcpJsonDirectory(path)
  await writeFile(path, JSON.stringify({ mcpServers: { shop: { url: 'http://one' } } }))
  expect(await directory.retrieve({ slug: 'shop' })).toMatchObject({ mcpUrl: 'http://one' })
  await writeFile(path, `\uFEFF${JSON.stringify({ mcpServers: { shop: { url: 'http://two' } } })}`)
  expect(await directory.retrieve({ slug: 'shop' })).toMatchObject({ mcpUrl: 'http://two' })
})

test('reads a file that PowerShell has written as UTF-16', async () => {
  const text = JSON.stringify({ mcpServers: { shop: { url: 'https://h' } } })
  await writeFile(path, `\uFEFF${text}`, 'utf16le')
  expect(await mcpJsonDirectory(path).retrieve({ slug: 'shop' })).toMatchObject({
    mcpUrl: 'https://h',
  })
})

test('ignores an invalid entry of another server', async () => {
  const mcpServers = { bad: { url: 'nowhere' }, shop: { url: 'https://h' } }
  expect(await retrieved({ mcpServers })).toMatchObject({ mcpUrl: 'https://h' })
})

describe('rejects with one line that has the path and the field', () => {
  test.each([
    ['[]', 'must be a JSON object'],
    ['{}', 'mcpServers must be an object'],
    ['{ "mcpServers": [] }', 'mcpServers must be an object'],
    [{ mcpServers: { shop: 'https://h' } }, 'mcpServers["shop"] must be an object'],
    [{ mcpServers: { shop: {} } }, 'mcpServers["shop"] must have either url or command'],
    [
      { mcpServers: { shop: { url: 'https://h', command: 'npx' } } },
      'mcpServers["shop"] must have either url or command',
    ],
    [
      { mcpServers: { shop: { type: 'sse', url: 'https://h' } } },
      'mcpServers["shop"].type is "sse", the transport of 2024-11-05, which is not supported: use the server\'s Streamable HTTP endpoint',
    ],
    [
      { mcpServers: { shop: { url: 'ws://h' } } },
      'mcpServers["shop"].url must be http or https, not "ws:"',
    ],
    [
      { mcpServers: { shop: { url: 'https://h', headers: { a: 'secret\n' } } } },
      'mcpServers["shop"].headers["a"] contains characters that a header must not have: remove line breaks, control characters and non-Latin characters',
    ],
    [{ mcpServers: { shop: { command: ' ' } } }, 'mcpServers["shop"].command must not be blank'],
    [
      { mcpServers: { shop: { command: 'npx', args: '-y' } } },
      'mcpServers["shop"].args must be an array of strings',
    ],
    [
      { mcpServers: { shop: { command: 'npx', env: { A: 1 } } } },
      'mcpServers["shop"].env["A"] must be a string',
    ],
  ])('%j', async (content, expected) => {
    const [message, error] = await refusal(content)
    expect(message).toBe(expected)
    expect(error).toMatchObject({ code: 'CONFIG', server: 'shop' })
  })

  test('for a file that is not JSON, without showing its text', async () => {
    const [message, error] = await refusal('{ "mcpServers": secret')
    expect(message).toBe('is not valid JSON')
    expect(error).not.toHaveProperty('cause.cause')
    const [second] = await refusal('{\n  "mcpServers": {}\n  "x": 1\n}')
    expect(second).toBe('is not valid JSON (line 3 column 3)')
  })

  test('for a file that does not exist', async () => {
    const missing = join(folder, 'missing.json')
    const error: unknown = await mcpJsonDirectory(missing)
      .retrieve({ slug: 'shop' })
      .catch((e: unknown) => e)
    expect(error).toMatchObject({
      code: 'CONFIG',
      message: expect.stringContaining(
        `${missing} cannot be read (ENOENT): check its path and permissions`,
      ),
    })
    expect(error).toHaveProperty('cause.cause.code', 'ENOENT')
  })
})

test('rejects a server that is unknown or disabled with NOT_FOUND', async () => {
  const mcpServers = { shop: { url: 'https://h', disabled: true }, bank: { url: 'https://h' } }
  const [message, error] = await refusal({ mcpServers }, { slug: 'shopp' })
  expect(message).toBe('No MCP server "shopp": use one of the known servers (shop, bank)')
  expect(error).toMatchObject({ code: 'NOT_FOUND', server: 'shopp' })
  const [disabled] = await refusal({ mcpServers })
  expect(disabled).toBe('MCP server "shop" is disabled: remove "disabled" from its entry')
  const [prototype] = await refusal({ mcpServers }, { slug: 'constructor' })
  expect(prototype).toContain('No MCP server "constructor"')
})

test.each([
  [{ slug: 'shop', name: 'shop' }, 'both are given'],
  [{}, 'neither is given'],
  [{ slug: '' }, 'neither is given'],
])('rejects the query %j: %s', async (query, what) => {
  const error: unknown = await mcpJsonDirectory(path)
    .retrieve(query)
    .catch((e: unknown) => e)
  expect(error).toMatchObject({
    code: 'CONFIG',
    message: expect.stringContaining(`A server is looked up by either slug or name: ${what}`),
  })
})

test('rejects an aborted lookup with the reason', async () => {
  const signal = AbortSignal.abort(new Error('enough'))
  await expect(mcpJsonDirectory(path).retrieve({ slug: 'shop', signal })).rejects.toThrow('enough')
})
