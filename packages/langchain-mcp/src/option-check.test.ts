import { SessionInfoFactory } from '@x/mcp-client'
import { describe, expect, test } from 'vitest'
import { createMcpTools, createMcpToolsFromAgent, loadMcpTools } from './index.ts'
import { assertOptions } from './option-check.ts'

/** As it comes from a settings file: the compiler has not seen it. */
const fromSettings = (options: object): Parameters<typeof createMcpTools>[0] =>
  Object.assign({ servers: {} }, options)

describe('createMcpTools() refuses, before anything is opened,', () => {
  test.each([
    [{ session: 'threads' }, /^session: expected 'run' or 'thread'.*got "threads"$/],
    [
      { pin: 'always' },
      /^pin: expected 'first-use' or what pinnedToolsFrom\(\) gives, got "always"$/,
    ],
    [{ approve: true }, /^approve: expected 'destructive' or a function, got boolean$/],
    [{ onServerError: 'ignore' }, /^onServerError: .*"ignore"$/],
    [{ onToolError: 'return' }, /^onToolError: .*"return"$/],
    [{ onNameCollision: 'prefix' }, /^onNameCollision: .*"prefix"$/],
    [{ servers: undefined }, /^servers: expected .*undefined$/],
    [{ servers: { shop: null } }, /^servers\.shop: expected an object like { url }, got null$/],
    [{ servers: { shop: { url: 'nope' } } }, /^servers\.shop: .*url is not absolute/],
    [{ servers: { shop: { ulr: 'x' } } }, /^servers\.shop: .*none of them is given$/],
    [{ deny: 'admin_*' }, /^deny: expected a list, got "admin_\*"$/],
    [{ deny: [{ tool: 'drop' }] }, /^deny\[0\]\.server: expected a name.*got undefined$/],
    [{ allow: ['a', { server: 'shop', tool: 1 }] }, /^allow\[1\]\.tool: expected .*number$/],
    [
      { servers: { shop: { url: 'http://a' }, bank: { slug: 'b' } }, deny: [{ server: 'shp' }] },
      /^deny\[0\]\.server: expected one of "shop", "b", "bank", got "shp"$/,
    ],
    [
      { deny: [{ server: /x/ }] },
      /^deny\[0\]\.server: expected one of no server at all, got \/x\/$/,
    ],
  ])('%o', (options, message) => {
    expect(() => createMcpTools(fromSettings(options))).toThrow(
      expect.objectContaining({ code: 'CONFIG', message: expect.stringMatching(message) }),
    )
  })
})

test('tools of a client are refused the same words', async () => {
  const source = {
    listTools: () => Promise.resolve([]),
    callTool: () => Promise.reject(new Error()),
  }
  const tools = loadMcpTools(source, Object.assign({}, { pin: 'always' as 'first-use' }))
  await expect(tools).rejects.toMatchObject({ code: 'CONFIG' })
})

test.each([[undefined], ['https://shop.example/mcp'], [{}]])('%o is no client', async (given) => {
  await expect(loadMcpTools(given as never)).rejects.toMatchObject({
    code: 'CONFIG',
    message: expect.stringMatching(/^client: expected a connected client/),
  })
})

test('a rule for a server that an agent does not name is refused, and makes no client', async () => {
  const made: unknown[] = []
  const createClient = (reference: unknown): never => {
    made.push(reference)
    throw new Error('not wanted')
  }
  const shop = { $resourceType: 'mcp', name: 'Shop', slug: 'shop', availableTools: [] }
  const agent = { resources: [shop] }
  const deny = [{ server: 'bank' }]
  await expect(createMcpToolsFromAgent(agent, { createClient, deny })).rejects.toMatchObject({
    code: 'CONFIG',
    message: 'deny[0].server: expected one of "shop", "Shop", got "bank"',
  })
  expect(made).toEqual([])
})

test('what is known passes, and so does what is not given', () => {
  const ask = (): boolean => true
  expect(() => {
    assertOptions({ session: 'thread', pin: {}, approve: ask, onToolError: ask })
    assertOptions({ session: new SessionInfoFactory(), pin: undefined, onServerError: 'skip' })
  }).not.toThrow()
})
