import type { IncomingHttpHeaders } from 'node:http'
import { handlerDispatcher } from '@x/internal/testing/undici'
import { deferred, freePort, startTestServer } from '@x/mcp-testing'
import type { TestServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { httpDirectory } from './http-directory.ts'
import type { HttpDirectoryOptions } from './http-directory.ts'
import type { McpServerQuery } from './server-directory.ts'

interface Asked {
  readonly path: string
  readonly headers: IncomingHttpHeaders
}

interface Answer {
  readonly status?: number
  readonly json?: unknown
  readonly text?: string
  readonly headers?: Record<string, string>
}

interface DirectoryServer extends AsyncDisposable {
  readonly server: TestServer
  /** With a path, as organization and tenant make one. */
  readonly baseUrl: string
  readonly asked: readonly Asked[]
  retrieve(query: McpServerQuery, options?: HttpDirectoryOptions): Promise<unknown>
  refusal(query: McpServerQuery, options?: HttpDirectoryOptions): Promise<unknown>
}

const FOLDERS = '/org/tenant/orchestrator_/api/FoldersNavigation/GetFoldersForCurrentUser'
const shop = { slug: 'shop', name: 'The shop', mcpUrl: 'https://shop.example/mcp' }

/** A directory that answers by path, without query. */
async function startDirectory(
  answers: Readonly<Record<string, Answer | ((url: URL) => Answer)>> = {
    '/org/tenant/agenthub_/api/servers/shop': { json: shop },
  },
): Promise<DirectoryServer> {
  const asked: Asked[] = []
  const server = await startTestServer((request, response) => {
    asked.push({ path: request.url ?? '', headers: request.headers })
    const url = new URL(request.url ?? '', 'http://directory.test')
    const found = answers[url.pathname] ?? { status: 404 }
    const { status = 200, json, text, headers } = typeof found === 'function' ? found(url) : found
    response.writeHead(status, headers).end(text ?? JSON.stringify(json ?? {}))
  })
  const baseUrl = new URL('/org/tenant', server.url).href
  const retrieve: DirectoryServer['retrieve'] = (query, options) =>
    httpDirectory({ baseUrl, environment: {}, ...options }).retrieve(query)
  return {
    server,
    baseUrl,
    asked,
    retrieve,
    refusal: (query, options) =>
      retrieve(query, options).then(
        () => Promise.reject(new Error('It was expected to be refused')),
        (error: unknown) => error,
      ),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

function serverOf(path: string): string {
  return `/org/tenant/agenthub_/api/servers/${path}`
}

describe('what goes over the wire', () => {
  test('one GET with the token, and the folder by its key', async () => {
    await using directory = await startDirectory()
    const found = await directory.retrieve({ slug: 'shop' }, { token: 't0k3n', folderKey: 'f-1' })
    expect(found).toEqual({ ...shop, folderKey: 'f-1', folderPath: undefined })
    expect(directory.asked).toHaveLength(1)
    expect(directory.asked[0]).toMatchObject({
      path: serverOf('shop'),
      headers: { authorization: 'Bearer t0k3n', 'x-uipath-folderkey': 'f-1' },
    })
  })

  test('a display name stands percent-encoded in one segment', async () => {
    const path = serverOf('The%20shop%2F%C3%BC%3Fa%3D1%23')
    await using directory = await startDirectory({ [path]: { json: shop } })
    await directory.retrieve({ name: 'The shop/ü?a=1#' })
    expect(directory.asked.map((one) => one.path)).toEqual([path])
    expect(await directory.refusal({ name: '..' })).toMatchObject({ code: 'CONFIG', server: '..' })
    expect(directory.asked).toHaveLength(1)
  })

  test('without token and folder neither header is sent', async () => {
    await using directory = await startDirectory()
    await directory.retrieve({ slug: 'shop' }, { baseUrl: `${directory.baseUrl}/` })
    expect(directory.asked[0]?.headers).not.toHaveProperty('authorization')
    expect(directory.asked[0]?.headers).not.toHaveProperty('x-uipath-folderkey')
  })

  test('a token function is asked at each lookup', async () => {
    await using directory = await startDirectory()
    let asked = 0
    const found = httpDirectory({
      baseUrl: directory.baseUrl,
      token: async () => `token-${++asked}`,
      environment: {},
    })
    await found.retrieve({ slug: 'shop' })
    await found.retrieve({ slug: 'shop' })
    expect(directory.asked.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer token-1',
      'Bearer token-2',
    ])
  })

  test('redirects are not followed: the token is for one host', async () => {
    await using other = await startDirectory()
    await using directory = await startDirectory({
      [serverOf('shop')]: { status: 307, headers: { location: other.baseUrl } },
    })
    expect(await directory.refusal({ slug: 'shop' }, { token: 't' })).toMatchObject({
      code: 'REJECTED',
    })
    expect(other.asked).toEqual([])
  })
})

describe('folders', () => {
  const inFolder = { [serverOf('shop')]: { json: shop } }

  test('a path is resolved to its key first, by its full name', async () => {
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

  test('is looked for page by page, up to the last one', async () => {
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
      message: 'No MCP server "shop" in folder "Nowhere": there is no such folder',
    })
    expect(directory.asked).toHaveLength(7)
  })

  test('a list of folders that does not end is left', async () => {
    const page = Array.from({ length: 50 }, () => ({ FullyQualifiedName: 'x', Key: 'k' }))
    await using directory = await startDirectory({ [FOLDERS]: { json: { PageItems: page } } })
    const error = await directory.refusal({ slug: 'shop', folderPath: 'Agents' })
    expect(error).toMatchObject({ code: 'NOT_FOUND' })
    expect(directory.asked).toHaveLength(20)
  })

  test.each([{}, { PageItems: [{ FullyQualifiedName: 'Agents' }] }])(
    'an answer that is no list of them is refused: %j',
    async (json) => {
      await using directory = await startDirectory({ [FOLDERS]: { json } })
      expect(await directory.refusal({ slug: 'shop', folderPath: 'Agents' })).toMatchObject({
        code: 'UNEXPECTED_RESPONSE',
      })
    },
  )
})

describe('the environment', () => {
  test('stands in for options, and is read at the lookup', async () => {
    await using directory = await startDirectory()
    const environment: Record<string, string> = {}
    const found = httpDirectory({ environment })
    await expect(found.retrieve({ slug: 'shop' })).rejects.toMatchObject({ code: 'CONFIG' })
    Object.assign(environment, {
      UIPATH_URL: directory.baseUrl,
      UIPATH_ACCESS_TOKEN: 'env-token',
      UIPATH_FOLDER_KEY: 'env-folder',
      UIPATH_FOLDER_PATH: 'Shared',
    })
    expect(await found.retrieve({ slug: 'shop' })).toMatchObject({ folderKey: 'env-folder' })
    expect(directory.asked[0]?.headers).toMatchObject({
      authorization: 'Bearer env-token',
      'x-uipath-folderkey': 'env-folder',
    })
  })

  test('options win', async () => {
    await using directory = await startDirectory()
    const environment = {
      UIPATH_URL: 'http://127.0.0.1:1',
      UIPATH_ACCESS_TOKEN: 'env-token',
      UIPATH_FOLDER_KEY: 'env-folder',
    }
    await directory.retrieve({ slug: 'shop' }, { environment, token: 'mine', folderKey: 'f-1' })
    expect(directory.asked[0]?.headers).toMatchObject({
      authorization: 'Bearer mine',
      'x-uipath-folderkey': 'f-1',
    })
  })
})

describe('answers', () => {
  test('keep what is not known here, and lose null', async () => {
    const json = { ...shop, type: 4, status: 1, owner: { id: 7 }, description: null }
    await using directory = await startDirectory({ [serverOf('shop')]: { json } })
    const found = await directory.retrieve({ slug: 'shop' })
    expect(found).toMatchObject({ ...shop, type: 4, status: 1, owner: { id: 7 } })
    expect(found).not.toHaveProperty('description')
  })

  test('start no program on this machine', async () => {
    const json = { slug: 'shop', command: 'rm', arguments: ['-rf'], environmentVariables: {} }
    await using directory = await startDirectory({ [serverOf('shop')]: { json } })
    expect(await directory.retrieve({ slug: 'shop' })).toEqual({ slug: 'shop' })
  })

  test.each([
    [{ json: [] }, 'the answer is not an object'],
    [{ json: { ...shop, slug: 7 } }, 'slug is not a string'],
    [{ json: { mcpUrl: 'ftp://shop.example' } }, 'mcpUrl must be http or https'],
    [{ json: { ...shop, headers: { a: 'secret\n' } } }, 'headers["a"] has characters'],
    [{ text: '<html>secret</html>' }, 'sent no JSON'],
  ])('that cannot be used are refused: %j', async (answer, what) => {
    await using directory = await startDirectory({ [serverOf('shop')]: answer })
    const error = await directory.refusal({ slug: 'shop' })
    expect(error).toMatchObject({ code: 'UNEXPECTED_RESPONSE', outcome: 'not-executed' })
    expect(String(error)).toContain(what)
    expect(String(error)).not.toContain('secret')
  })

  test('that are too large are not read to the end', async () => {
    const text = 'x'.repeat(2 * 1024 * 1024)
    await using directory = await startDirectory({ [serverOf('shop')]: { text } })
    expect(await directory.refusal({ slug: 'shop' })).toMatchObject({ code: 'LIMIT' })
  })

  test.each([
    [404, 'NOT_FOUND', 'No MCP server "bank" in folder "f-1"'],
    [401, 'UNAUTHORIZED', 'refused the credentials with status 401'],
    [403, 'UNAUTHORIZED', 'refused the credentials with status 403'],
    [500, 'REJECTED', 'answered 500'],
    [204, 'REJECTED', 'answered 204'],
  ])('with status %i are %s', async (status, code, what) => {
    await using directory = await startDirectory({ [serverOf('bank')]: { status } })
    const error = await directory.refusal({ slug: 'bank' }, { folderKey: 'f-1', token: 'secret' })
    expect(error).toMatchObject({ code, server: 'bank', outcome: 'not-executed' })
    expect(String(error)).toContain(what)
    expect(String(error)).not.toContain('secret')
  })
})

describe('what fails', () => {
  test('a directory that is not there is UNREACHABLE', async () => {
    const baseUrl = `http://127.0.0.1:${await freePort()}`
    await expect(
      httpDirectory({ baseUrl, environment: {} }).retrieve({ slug: 'shop' }),
    ).rejects.toMatchObject({ code: 'UNREACHABLE', server: 'shop', cause: expect.anything() })
  })

  test('one that is silent is left: after the time, or when the caller gives up', async () => {
    const asked = deferred()
    await using silent = await startTestServer(() => asked.resolve())
    const directory = httpDirectory({ baseUrl: silent.url, timeoutMs: 30, environment: {} })
    await expect(directory.retrieve({ slug: 'shop' })).rejects.toMatchObject({ code: 'TIMEOUT' })
    await asked.promise
    const controller = new AbortController()
    const patient = httpDirectory({ baseUrl: silent.url, environment: {} })
    const lookup = patient.retrieve({ slug: 'shop', signal: controller.signal })
    controller.abort(new Error('enough'))
    await expect(lookup).rejects.toThrow('enough')
  })

  test('a token function that does not answer keeps nobody waiting', async () => {
    const directory = httpDirectory({
      baseUrl: 'http://127.0.0.1:1',
      token: () => new Promise(() => {}),
      timeoutMs: 20,
      environment: {},
    })
    await expect(directory.retrieve({ slug: 'shop' })).rejects.toMatchObject({ code: 'TIMEOUT' })
  })

  test.each([
    ['localhost:8080', 'baseUrl must be http or https'],
    [' https://host', 'baseUrl begins or ends with white space'],
  ])('base URL %s is CONFIG', async (baseUrl, what) => {
    const lookup = httpDirectory({ baseUrl, environment: {} }).retrieve({ slug: 'shop' })
    await expect(lookup).rejects.toMatchObject({
      code: 'CONFIG',
      message: expect.stringContaining(what),
    })
  })

  test('a token that can be no header is CONFIG, and is not repeated', async () => {
    await using directory = await startDirectory()
    const error = await directory.refusal({ slug: 'shop' }, { token: 'secret\r\nx: y' })
    expect(error).toMatchObject({ code: 'CONFIG' })
    expect(String(error)).not.toContain('secret')
    expect(directory.asked).toEqual([])
  })

  test.each([{}, { slug: 'shop', name: 'shop' }])('%j names no server', async (query) => {
    await using directory = await startDirectory()
    expect(await directory.refusal(query)).toMatchObject({ code: 'CONFIG' })
    expect(directory.asked).toEqual([])
  })
})

test('the dispatcher: its own option, else that of the client; both stay open', async () => {
  const asked: string[] = []
  const dispatcherOf = (whose: string): ReturnType<typeof handlerDispatcher> =>
    handlerDispatcher(() => {
      asked.push(whose)
      return Response.json(shop)
    })
  const own = dispatcherOf('own')
  const query = { slug: 'shop', dispatcher: dispatcherOf('of the client') }
  const options = { baseUrl: 'http://directory.test', environment: {} }
  for (let round = 0; round < 2; round++) {
    await httpDirectory(options).retrieve(query)
    await httpDirectory({ ...options, dispatcher: own }).retrieve(query)
  }
  expect(asked).toEqual(['of the client', 'own', 'of the client', 'own'])
})
