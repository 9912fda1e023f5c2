import type { IncomingHttpHeaders } from 'node:http'
import { handlerDispatcher } from '@x/internal/testing/undici'
import { deferred, freePort, startTestServer } from '@x/mcp-testing'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { rejectionOf, stopClock } from '../../test/setting.ts'
import { httpDirectory } from './http-directory.ts'
import type { HttpDirectoryOptions } from './http-directory.ts'
import type { McpServerQuery } from './server-directory.ts'

beforeEach(() => {
  for (const name of ['URL', 'ACCESS_TOKEN', 'FOLDER_PATH', 'FOLDER_KEY']) {
    vi.stubEnv(`UIPATH_${name}`, undefined)
  }
})

interface Answer {
  readonly status?: number
  readonly json?: unknown
  readonly text?: string
  readonly headers?: Record<string, string>
}

const FOLDERS = '/org/tenant/orchestrator_/api/FoldersNavigation/GetFoldersForCurrentUser'
const shop = { slug: 'shop', name: 'The shop', mcpUrl: 'https://shop.example/mcp' }

/** Starts a directory of AgentHub with responses by path. Its URL has a path of organization and tenant. */
async function startDirectory(
  answers: Readonly<Record<string, Answer | ((url: URL) => Answer)>> = {
    '/org/tenant/agenthub_/api/servers/shop': { json: shop },
  },
) {
  const asked: { readonly path: string; readonly headers: IncomingHttpHeaders }[] = []
  const server = await startTestServer((request, response) => {
    asked.push({ path: request.url ?? '', headers: request.headers })
    const url = new URL(request.url ?? '', 'http://directory.test')
    const found = answers[url.pathname] ?? { status: 404 }
    const { status = 200, json, text, headers } = typeof found === 'function' ? found(url) : found
    response.writeHead(status, headers).end(text ?? JSON.stringify(json ?? {}))
  })
  const url = new URL('/org/tenant', server.url).href
  const retrieve = (query: McpServerQuery, options?: HttpDirectoryOptions): Promise<unknown> =>
    httpDirectory({ url, preset: 'agenthub', ...options }).retrieve(query)
  return {
    url,
    asked,
    retrieve,
    refusal: (...args: Parameters<typeof retrieve>) => rejectionOf(retrieve(...args)),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

function serverOf(path: string): string {
  return `/org/tenant/agenthub_/api/servers/${path}`
}

describe('a lookup', () => {
  test('sends one GET with the token and the key of the folder', async () => {
    await using directory = await startDirectory()
    const found = await directory.retrieve({ slug: 'shop' }, { token: 't0k3n', folderKey: 'f-1' })
    expect(found).toEqual({ ...shop, folderKey: 'f-1', folderPath: undefined })
    expect(directory.asked).toHaveLength(1)
    expect(directory.asked[0]).toMatchObject({
      path: serverOf('shop'),
      headers: { authorization: 'Bearer t0k3n', 'x-uipath-folderkey': 'f-1' },
    })
  })

  test('encodes a display name as one segment of the path', async () => {
    const path = serverOf('The%20shop%2F%C3%BC%3Fa%3D1%23')
    await using directory = await startDirectory({ [path]: { json: shop } })
    await directory.retrieve({ name: 'The shop/ü?a=1#' })
    expect(directory.asked.map((one) => one.path)).toEqual([path])
    expect(await directory.refusal({ name: '..' })).toMatchObject({ code: 'CONFIG', server: '..' })
    expect(directory.asked).toHaveLength(1)
  })

  test('sends no header for a missing token or folder', async () => {
    await using directory = await startDirectory()
    await directory.retrieve({ slug: 'shop' }, { url: `${directory.url}/` })
    expect(directory.asked[0]?.headers).not.toHaveProperty('authorization')
    expect(directory.asked[0]?.headers).not.toHaveProperty('x-uipath-folderkey')
  })

  test('calls a token function each time', async () => {
    await using directory = await startDirectory()
    let asked = 0
    const found = httpDirectory({
      url: directory.url,
      preset: 'agenthub',
      token: async () => `token-${++asked}`,
    })
    await found.retrieve({ slug: 'shop' })
    await found.retrieve({ slug: 'shop' })
    expect(directory.asked.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer token-1',
      'Bearer token-2',
    ])
  })

  test('does not follow redirects, because the token is for one host', async () => {
    await using other = await startDirectory()
    await using directory = await startDirectory({
      [serverOf('shop')]: { status: 307, headers: { location: other.url } },
    })
    expect(await directory.refusal({ slug: 'shop' }, { token: 't' })).toMatchObject({
      code: 'REJECTED',
    })
    expect(other.asked).toEqual([])
  })
})

describe('folders', () => {
  const inFolder = { [serverOf('shop')]: { json: shop } }

  test('are resolved from a path to a key first, by their full name', async () => {
    await using directory = await startDirectory({
      ...inFolder,
      [FOLDERS]: {
        json: {
          PageItems: [
            { FullyQualifiedName: 'Agents', Key: 'f-0' },
            { FullyQualifiedName: 'Shared/Agents', Key: 'f-1' },
          ],
        },
      },
    })
    const query = { slug: 'shop', folderPath: 'Shared/Agents' }
    expect(await directory.retrieve(query, { token: 't', folderKey: 'not this one' })).toEqual({
      ...shop,
      folderPath: 'Shared/Agents',
      folderKey: 'f-1',
    })
    const [folders, servers] = directory.asked
    expect(folders?.path).toContain('?searchText=Agents&')
    expect(folders?.headers.authorization).toBe('Bearer t')
    expect(servers?.headers['x-uipath-folderkey']).toBe('f-1')
  })

  test('are searched page by page, up to the last page', async () => {
    const items = Array.from({ length: 120 }, (_, index) => ({
      FullyQualifiedName: `Shared/${index}/Agents`,
      Key: `f-${index}`,
    }))
    await using directory = await startDirectory({
      ...inFolder,
      [FOLDERS]: ({ searchParams }) => {
        const skip = Number(searchParams.get('skip'))
        return { json: { PageItems: items.slice(skip, skip + Number(searchParams.get('take'))) } }
      },
    })
    const folderPath = 'Shared/117/Agents'
    expect(await directory.retrieve({ slug: 'shop', folderPath })).toMatchObject({
      folderKey: 'f-117',
    })
    expect(directory.asked).toHaveLength(4)
    expect(await directory.refusal({ slug: 'shop', folderPath: 'Nowhere' })).toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining(
        'No MCP server "shop" in folder "Nowhere": there is no such folder. Check its full path',
      ),
    })
    expect(directory.asked).toHaveLength(7)
  })

  test('are searched in at most 20 pages', async () => {
    const page = Array.from({ length: 50 }, () => ({ FullyQualifiedName: 'x', Key: 'k' }))
    await using directory = await startDirectory({ [FOLDERS]: { json: { PageItems: page } } })
    const error = await directory.refusal({ slug: 'shop', folderPath: 'Agents' })
    expect(error).toMatchObject({ code: 'NOT_FOUND' })
    expect(directory.asked).toHaveLength(20)
  })

  test.each([{}, { PageItems: [{ FullyQualifiedName: 'Agents' }] }])(
    'are rejected if the response is not a list: %j',
    async (json) => {
      await using directory = await startDirectory({ [FOLDERS]: { json } })
      expect(await directory.refusal({ slug: 'shop', folderPath: 'Agents' })).toMatchObject({
        code: 'UNEXPECTED_RESPONSE',
      })
    },
  )
})

describe('AgentHub', () => {
  const stub = (values: Readonly<Record<string, string>>): void => {
    for (const [name, value] of Object.entries(values)) vi.stubEnv(`UIPATH_${name}`, value)
  }

  test('is asked without any option where it runs the process, and its variables are read at each lookup', async () => {
    await using directory = await startDirectory()
    const found = httpDirectory()
    await expect(found.retrieve({ slug: 'shop' })).rejects.toMatchObject({ code: 'CONFIG' })
    stub({ URL: directory.url, ACCESS_TOKEN: 'env-token', FOLDER_KEY: 'env-folder' })
    stub({ FOLDER_PATH: 'Shared' })
    expect(await found.retrieve({ slug: 'shop' })).toMatchObject({ folderKey: 'env-folder' })
    expect(directory.asked[0]?.headers).toMatchObject({
      authorization: 'Bearer env-token',
      'x-uipath-folderkey': 'env-folder',
    })
  })

  test('does not replace options', async () => {
    await using directory = await startDirectory()
    stub({ URL: 'http://127.0.0.1:1', ACCESS_TOKEN: 'env-token', FOLDER_KEY: 'env-folder' })
    await directory.retrieve({ slug: 'shop' }, { token: 'mine', folderKey: 'f-1' })
    expect(directory.asked[0]?.headers).toMatchObject({
      authorization: 'Bearer mine',
      'x-uipath-folderkey': 'f-1',
    })
  })

  test('gets the token of the process at the origin of UIPATH_URL only', async () => {
    await using directory = await startDirectory()
    stub({ URL: 'http://127.0.0.1:1', ACCESS_TOKEN: 'env-token' })
    await directory.retrieve({ slug: 'shop' })
    stub({ URL: new URL('/another/path', directory.url).href })
    await directory.retrieve({ slug: 'shop' })
    expect(directory.asked.map(({ headers }) => headers.authorization)).toEqual([
      undefined,
      'Bearer env-token',
    ])
  })

  test.each<[HttpDirectoryOptions, string]>([
    [{ preset: 'agenthub' }, 'Set the option "url" or UIPATH_URL'],
    [{}, 'Set the option "directory"'],
  ])('with %j says what is missing', async (options, what) => {
    const error = await rejectionOf(httpDirectory(options).retrieve({ slug: 'shop' }))
    expect(error).toMatchObject({ code: 'CONFIG', message: expect.stringContaining(what) })
    const namesPlatform = String(error).includes('UIPATH')
    expect(namesPlatform).toBe(options.preset === 'agenthub')
  })
})

describe('a directory without a preset', () => {
  beforeEach(() => {
    vi.stubEnv('UIPATH_URL', 'http://127.0.0.1:1')
    vi.stubEnv('UIPATH_ACCESS_TOKEN', 'env-token')
    vi.stubEnv('UIPATH_FOLDER_PATH', 'Elsewhere')
    vi.stubEnv('UIPATH_FOLDER_KEY', 'env-folder')
  })

  test.each<[McpServerQuery, HttpDirectoryOptions, string]>([
    [{ slug: 'shop' }, {}, '/org/tenant/shop'],
    [{ name: 'The shop/ü' }, {}, '/org/tenant/The%20shop%2F%C3%BC'],
    [{ slug: 'shop', folderPath: 'A/b' }, {}, '/org/tenant/shop?folderPath=A%2Fb'],
    [
      { slug: 'shop' },
      { folderPath: 'A', folderKey: 'k' },
      '/org/tenant/shop?folderPath=A&folderKey=k',
    ],
    [
      { slug: 'shop', folderPath: 'B' },
      { folderPath: 'A', folderKey: 'k' },
      '/org/tenant/shop?folderPath=B',
    ],
  ])(
    'is asked for %j with %j at %s, and gets nothing of the platform',
    async (query, options, path) => {
      await using directory = await startDirectory({
        [new URL(path, 'http://directory.test').pathname]: { json: shop },
      })
      const found = await httpDirectory({ url: directory.url, ...options }).retrieve(query)
      expect(found).toMatchObject(shop)
      expect(directory.asked.map((one) => one.path)).toEqual([path])
      expect(directory.asked[0]?.headers).not.toHaveProperty('authorization')
      expect(directory.asked[0]?.headers).not.toHaveProperty('x-uipath-folderkey')
    },
  )

  test('keeps the query of its URL', async () => {
    await using directory = await startDirectory({ '/org/tenant/shop': { json: shop } })
    await httpDirectory(`${directory.url}/?tenant=7`).retrieve({ slug: 'shop', folderPath: 'A' })
    expect(directory.asked[0]?.path).toBe('/org/tenant/shop?tenant=7&folderPath=A')
  })

  test("asks nobody with the preset 'none' and no URL", async () => {
    const lookup = httpDirectory({ preset: 'none' }).retrieve({ slug: 'shop' })
    await expect(lookup).rejects.toMatchObject({ code: 'CONFIG' })
  })
})

describe('a response', () => {
  test('keeps unknown fields, and drops fields that are null', async () => {
    const json = { ...shop, type: 4, status: 1, owner: { id: 7 }, description: null }
    await using directory = await startDirectory({ [serverOf('shop')]: { json } })
    const found = await directory.retrieve({ slug: 'shop' })
    expect(found).toMatchObject({ ...shop, type: 4, status: 1, owner: { id: 7 } })
    expect(found).not.toHaveProperty('description')
  })

  test('starts no program on this machine', async () => {
    const json = { slug: 'shop', command: 'rm', arguments: ['-rf'], environmentVariables: {} }
    await using directory = await startDirectory({ [serverOf('shop')]: { json } })
    expect(await directory.retrieve({ slug: 'shop' })).toEqual({ slug: 'shop' })
  })

  test.each([
    [{ json: [] }, 'the body must be a JSON object'],
    [{ json: { ...shop, slug: 7 } }, 'slug must be a string'],
    [{ json: { mcpUrl: 'ftp://shop.example' } }, 'mcpUrl must be http or https'],
    [{ json: { ...shop, headers: { a: 'secret\n' } } }, 'headers["a"] contains characters'],
    [{ text: '<html>secret</html>' }, 'the body is not valid JSON'],
  ])('that is invalid is rejected: %j', async (answer, what) => {
    await using directory = await startDirectory({ [serverOf('shop')]: answer })
    const error = await directory.refusal({ slug: 'shop' })
    expect(error).toMatchObject({ code: 'UNEXPECTED_RESPONSE', outcome: 'not-executed' })
    expect(String(error)).toContain(what)
    expect(String(error)).not.toContain('secret')
  })

  test('that is too large is not read to the end', async () => {
    const text = 'x'.repeat(2 * 1024 * 1024)
    await using directory = await startDirectory({ [serverOf('shop')]: { text } })
    expect(await directory.refusal({ slug: 'shop' })).toMatchObject({ code: 'LIMIT' })
  })

  test.each([
    [404, 'NOT_FOUND', 'No MCP server "bank" in folder "f-1"'],
    [401, 'UNAUTHORIZED', 'refused the credentials with status 401'],
    [403, 'UNAUTHORIZED', 'refused the credentials with status 403'],
    [500, 'REJECTED', 'answered with status 500'],
    [204, 'REJECTED', 'answered with status 204'],
  ])('with status %i is rejected with %s', async (status, code, what) => {
    await using directory = await startDirectory({ [serverOf('bank')]: { status } })
    const error = await directory.refusal({ slug: 'bank' }, { folderKey: 'f-1', token: 'secret' })
    expect(error).toMatchObject({ code, server: 'bank', outcome: 'not-executed' })
    expect(String(error)).toContain(what)
    expect(String(error)).not.toContain('secret')
  })
})

describe('a lookup that fails', () => {
  test('rejects with UNREACHABLE if no directory listens', async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    await expect(httpDirectory({ url }).retrieve({ slug: 'shop' })).rejects.toMatchObject({
      code: 'UNREACHABLE',
      server: 'shop',
      cause: expect.anything(),
    })
  })

  test('rejects at the time limit or when the caller aborts if the directory is silent', async () => {
    const asked = deferred()
    await using silent = await startTestServer(() => asked.resolve())
    const directory = httpDirectory(silent.url)
    stopClock()
    const late = rejectionOf(directory.retrieve({ slug: 'shop' }))
    await asked.promise
    vi.advanceTimersByTime(10_000)
    expect(await late).toMatchObject({ code: 'TIMEOUT' })
    const controller = new AbortController()
    const lookup = directory.retrieve({ slug: 'shop', signal: controller.signal })
    controller.abort(new Error('enough'))
    await expect(lookup).rejects.toThrow('enough')
  })

  test('rejects at the time limit if the token function does not settle', async () => {
    stopClock()
    const token = (): Promise<never> => new Promise(() => {})
    const late = httpDirectory({ url: 'http://127.0.0.1:1', token }).retrieve({ slug: 'shop' })
    vi.advanceTimersByTime(10_000)
    await expect(late).rejects.toMatchObject({ code: 'TIMEOUT' })
  })

  test.each([
    ['localhost:8080', 'url must be http or https'],
    [' https://host', 'url starts or ends with white space'],
  ])('rejects the base URL %s with CONFIG', async (url, what) => {
    const lookup = httpDirectory({ url }).retrieve({ slug: 'shop' })
    await expect(lookup).rejects.toMatchObject({
      code: 'CONFIG',
      message: expect.stringContaining(what),
    })
  })

  test('rejects an invalid token with CONFIG, without showing it', async () => {
    await using directory = await startDirectory()
    const error = await directory.refusal({ slug: 'shop' }, { token: 'secret\r\nx: y' })
    expect(error).toMatchObject({ code: 'CONFIG' })
    expect(String(error)).not.toContain('secret')
    expect(directory.asked).toEqual([])
  })

  test.each([{}, { slug: 'shop', name: 'shop' }])(
    'rejects the query %j with CONFIG',
    async (query) => {
      await using directory = await startDirectory()
      expect(await directory.refusal(query)).toMatchObject({ code: 'CONFIG' })
      expect(directory.asked).toEqual([])
    },
  )
})

test('uses the dispatcher of the client, and does not close it', async () => {
  const dispatcher = handlerDispatcher(() => Response.json(shop))
  const directory = httpDirectory('http://directory.test')
  for (let round = 0; round < 2; round++) {
    expect(await directory.retrieve({ slug: 'shop', dispatcher })).toMatchObject({ slug: 'shop' })
  }
})
