import type { BaseMessage } from '@langchain/core/messages'
import { startSkillServer, type SkillServer } from '@x/mcp-testing'
import { CompositeBackend, createDeepAgent, StateBackend, type BackendProtocolV2 } from 'deepagents'
import { expect, expectTypeOf, test } from 'vitest'
import { createMcpTools, type McpTools } from '../src/index.ts'
import { mcpSkillsBackend, type McpSkillsBackend, type McpSkillsOptions } from '../src/skills.ts'
import { ScriptedModel } from './scripted-model.ts'

const REFUND = 'skill://refund/SKILL.md'

function manifestOf(name: string, body = 'Ask for the order.\n', more = ''): string {
  return `---\nname: ${name}\ndescription: "Does: ${name}"\n${more}---\n${body}`
}

const refund = {
  'SKILL.md': manifestOf('refund', undefined, 'allowed-tools: Bash\nmodule: index.ts\n'),
  'references/FORMS.md': 'Form 1\nForm 2\nForm 3',
}

function toolsOf(servers: Readonly<Record<string, SkillServer>>): McpTools {
  const urls = Object.entries(servers).map(([name, { url }]) => [name, { url }] as const)
  return createMcpTools({ servers: Object.fromEntries(urls) })
}

/** The text of the system prompt. */
function promptIn(messages: readonly BaseMessage[]): string {
  return messages.find((message) => message.getType() === 'system')?.text ?? ''
}

function agentOf(mcp: McpTools, sources: string[], options: McpSkillsOptions = {}) {
  const seen = { prompt: '' }
  const model = new ScriptedModel((messages) => {
    seen.prompt = promptIn(messages)
  })
  const agent = createDeepAgent({
    model,
    backend: new CompositeBackend(new StateBackend(), { '/mcp/': mcpSkillsBackend(mcp, options) }),
    skills: sources,
  })
  const say = async (content: string): Promise<string> => {
    const { messages } = await agent.invoke({ messages: [{ role: 'user', content }] })
    return messages.at(-1)?.text ?? ''
  }
  return { seen, say }
}

const readFile = (path: string): string => `call read_file ${JSON.stringify({ file_path: path })}`

test('is a backend of deep agents', () => {
  expectTypeOf<McpSkillsBackend>().toExtend<BackendProtocolV2>()
})

test('lists skills of two servers with one name, and reads no file for that', async () => {
  await using shop = await startSkillServer({ refund })
  await using hotel = await startSkillServer({ refund })
  await using mcp = toolsOf({ shop, hotel })
  const { seen, say } = agentOf(mcp, ['/mcp/shop/', '/mcp/hotel/'])
  await say('Hello')
  expect(seen.prompt).toContain('**shop-refund**: Does: refund')
  expect(seen.prompt).toContain('/mcp/hotel/hotel-refund/SKILL.md')
  expect(seen.prompt).not.toContain('Allowed tools')
  expect(seen.prompt).not.toContain('await import("@/skills/shop-refund")')
  expect([...shop.reads, ...hotel.reads]).toEqual([])
})

test('reads a skill and its files when the model does', async () => {
  await using shop = await startSkillServer({ refund })
  await using mcp = toolsOf({ shop })
  const { say } = agentOf(mcp, ['/mcp/shop/'])
  const loaded = await say(readFile('/mcp/shop/shop-refund/SKILL.md'))
  expect(loaded).toContain('Instructions of MCP server "shop"')
  expect(loaded).toContain('Ask for the order.')
  expect(await say(readFile('/mcp/shop/shop-refund/references/FORMS.md'))).toContain('Form 2')
  expect(shop.reads).toEqual([REFUND, 'skill://refund/references/FORMS.md'])
  expect(await say('call ls {"path":"/mcp/shop/shop-refund"}')).toContain('references')
  expect(await say('call grep {"pattern":"Form"}')).not.toContain('Form 1')
  const write = { file_path: '/mcp/shop/shop-refund/SKILL.md', content: 'x' }
  expect(await say(`call write_file ${JSON.stringify(write)}`)).toContain('cannot be changed')
})

test('reads a part of a file by lines', async () => {
  await using shop = await startSkillServer({ refund })
  await using mcp = toolsOf({ shop })
  const backend = mcpSkillsBackend(mcp)
  const path = '/shop/shop-refund/references/FORMS.md'
  expect(await backend.read(path, 1, 1)).toMatchObject({
    content: 'Form 2',
    totalLines: 3,
    startLine: 2,
    endLine: 2,
    nextOffset: 2,
  })
  expect(await backend.read(path, 2)).not.toHaveProperty('nextOffset')
  expect(await backend.readRaw(path)).toMatchObject({ data: { content: 'Form 1\nForm 2\nForm 3' } })
})

test('reads the end of a long file, and as many lines at once as a model gets', async () => {
  const lines = Array.from({ length: 6000 }, (_, index) => `line ${index} ${'x'.repeat(20)}`)
  const files = { ...refund, 'long.md': lines.join('\n'), 'line.md': 'x'.repeat(150_000) }
  await using shop = await startSkillServer({ refund: files })
  await using mcp = toolsOf({ shop })
  const backend = mcpSkillsBackend(mcp)
  expect(await backend.read('/shop/shop-refund/long.md', 5500, 10)).toMatchObject({
    content: expect.stringMatching(/^line 5500 /),
    totalLines: 6000,
  })
  const first = await backend.read('/shop/shop-refund/long.md', 0, 6000)
  const { nextOffset = 0 } = 'nextOffset' in first ? first : {}
  expect(first).toMatchObject({ content: lines.slice(0, nextOffset).join('\n') })
  expect(nextOffset).toBeGreaterThan(3000)
  expect(await backend.read('/shop/shop-refund/line.md')).toMatchObject({
    content: expect.stringContaining('[50000 more characters. The line is too long'),
  })
})

test('lists servers, skills and files as folders', async () => {
  await using shop = await startSkillServer({ refund })
  await using mcp = createMcpTools({ servers: { 'my shop': shop.url } })
  const backend = mcpSkillsBackend(mcp)
  expect(await backend.ls('/')).toEqual({ files: [{ path: '/my%20shop/', is_dir: true }] })
  const { files } = await backend.ls('/my%20shop/')
  const path = files[0]?.path ?? ''
  expect(path).toMatch(/^\/my%20shop\/myshop[0-9a-f]{8}-refund\/$/)
  expect(await backend.ls(path)).toEqual({
    files: [
      { path: `${path}SKILL.md`, is_dir: false },
      { path: `${path}references/FORMS.md`, is_dir: false },
    ],
  })
  expect(await backend.ls('/none/')).toEqual({ files: [] })
  expect(shop.reads).toEqual([])
})

test('gives skills of one server with one name, and long names, folders of their own', async () => {
  const long = 'a'.repeat(64)
  await using shop = await startSkillServer({
    'one/refund': refund,
    'two/refund': refund,
    [long]: { 'SKILL.md': manifestOf(long) },
  })
  await using mcp = toolsOf({ shop })
  const { files } = await mcpSkillsBackend(mcp).ls('/shop/')
  const folders = files.map(({ path }) => path.split('/').at(-2) ?? '')
  expect(new Set(folders).size).toBe(3)
  for (const folder of folders) expect(folder).toMatch(/^(?=.{1,64}$)shop(-[a-z0-9]+)+$/)
})

test('gives no file to a listing, and nothing for what is not there', async () => {
  await using shop = await startSkillServer({ refund })
  await using mcp = toolsOf({ shop })
  const backend = mcpSkillsBackend(mcp)
  const paths = [
    '/shop/shop-refund/references/FORMS.md',
    '/shop/none/SKILL.md',
    '/none/none/SKILL.md',
  ]
  const errors = (await backend.downloadFiles(paths)).map(({ error }) => error)
  expect(errors).toEqual(['permission_denied', 'file_not_found', 'file_not_found'])
  expect(await backend.read('/shop/none/SKILL.md')).toEqual({ error: 'There is no such file.' })
  expect(await backend.read('/shop/shop-refund/../../x')).toMatchObject({
    error: expect.any(String),
  })
  expect(shop.reads).toEqual([])
})

test('asks for an approval of each set of files', async () => {
  await using shop = await startSkillServer({ refund })
  await using mcp = toolsOf({ shop })
  let stored: string | undefined
  let current: string | undefined
  const backend = mcpSkillsBackend(mcp, {
    approval: ({ approvalKey }) => {
      current = approvalKey
      return stored
    },
  })
  const manifest = '/shop/shop-refund/SKILL.md'
  const form = '/shop/shop-refund/references/FORMS.md'
  expect(await backend.read(form)).toEqual({
    error: expect.stringContaining('nobody has approved'),
  })
  expect(shop.reads).toEqual([])
  stored = current
  expect(await backend.read(form)).toMatchObject({ content: 'Form 1\nForm 2\nForm 3' })
  await shop.publish('refund', { ...refund, 'references/FORMS.md': 'Pay me' })
  expect(await backend.read(form)).toEqual({
    error: expect.stringContaining('Load the skill again'),
  })
  expect(await backend.read(manifest)).toEqual({ error: expect.stringContaining('nobody') })
  stored = current
  expect(await backend.read(manifest)).toHaveProperty('content')
  expect(await backend.read(form)).toMatchObject({ content: 'Pay me' })
  stored = undefined // withdrawn
  expect(await backend.read(form)).toEqual({ error: expect.stringContaining('nobody') })
})

test('keeps the skills of two users apart', async () => {
  await using shop = await startSkillServer({ refund })
  await using mcp = createMcpTools({
    servers: { shop: { url: shop.url } },
    principal: ({ configurable }) => String(configurable?.['user']),
  })
  const agent = createDeepAgent({
    model: new ScriptedModel(),
    backend: new CompositeBackend(new StateBackend(), { '/mcp/': mcpSkillsBackend(mcp) }),
  })
  const say = async (user: string): Promise<string> => {
    const content = readFile('/mcp/shop/shop-refund/SKILL.md')
    const config = { configurable: { user } }
    const { messages } = await agent.invoke({ messages: [{ role: 'user', content }] }, config)
    return messages.at(-1)?.text ?? ''
  }
  expect(await say('ada')).toContain('Ask for the order.')
  shop.listed = []
  expect(await say('ben')).toContain('There is no such file.')
  expect(await say('ada')).toContain('Ask for the order.')
})
