import { startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { createMcpTools, loadMcpTools } from '../src/index.ts'
import type { ToolErrorHandler } from '../src/tools/mcp-tool.ts'
import { interruptOnFrom } from '../src/middleware.ts'
import { loadMcpPrompt } from '../src/prompts.ts'
import { loadMcpResources } from '../src/resources.ts'
import { AnsweringSource, toolCall, toolOver } from './answering-source.ts'

const HIGH = '\uD83D'
const LOW = '\uDE00'
const emoji = `${HIGH}${LOW}`

/** True if no text or name of a value has half of a surrogate pair. */
function isWellFormed(value: unknown): boolean {
  const texts: string[] = []
  JSON.stringify(value, (name, inner: unknown) => {
    texts.push(name, typeof inner === 'string' ? inner : '')
    return inner
  })
  return texts.every((text) => text.isWellFormed())
}

test.each([
  ['text', { type: 'text', text: `a${HIGH}b` }, 'a\uFFFDb'],
  ['a low half', { type: 'text', text: `${LOW}b` }, '\uFFFDb'],
  ['halves in the wrong order', { type: 'text', text: `${LOW}${HIGH}` }, '\uFFFD\uFFFD'],
  ['an emoji', { type: 'text', text: emoji }, emoji],
])('makes %s well-formed in a result', async (_what, block, content) => {
  const tool = toolOver(new AnsweringSource({ content: [block] }))
  expect(await tool.invoke(toolCall({ item: 'x' }))).toMatchObject({ content })
})

test.each([
  { type: 'resource', resource: { uri: `a:${HIGH}`, text: HIGH } },
  { type: 'resource_link', uri: `a:${HIGH}`, name: HIGH, description: LOW },
  { type: 'other', text: HIGH },
  HIGH,
])('makes a block well-formed: %j', async (block) => {
  const tool = toolOver(new AnsweringSource({ content: [block] }))
  const message = (await tool.invoke(toolCall({ item: 'x' }))) as { readonly content: unknown }
  expect(isWellFormed(message.content)).toBe(true)
})

test('makes structured content, failures and errors well-formed', async () => {
  const answers = [
    { content: [], structuredContent: { [HIGH]: LOW } },
    { content: [{ type: 'text', text: HIGH }], isError: true },
    Object.assign(new Error(`broken ${HIGH}`), { name: 'McpError', code: -32_000 }),
  ]
  const seen: unknown[] = []
  const onToolError: ToolErrorHandler = ({ message }) => void seen.push(message)
  for (const answer of answers) {
    const tool = toolOver(new AnsweringSource(answer), {}, { onToolError })
    const message = (await tool.invoke(toolCall({ item: 'x' }))) as { readonly content: unknown }
    expect(isWellFormed(message.content)).toBe(true)
  }
  expect(seen).toHaveLength(2)
  expect(isWellFormed(seen)).toBe(true)
})

test('makes the error for arguments that do not fit well-formed', async () => {
  const inputSchema = { type: 'object', properties: { item: { enum: [`a${HIGH}`] } } }
  const tool = toolOver(new AnsweringSource(), { inputSchema })
  const error: unknown = await tool.invoke(toolCall({ item: HIGH })).catch((one: unknown) => one)
  expect(isWellFormed((error as Error).message)).toBe(true)
})

test('makes the definition that a model sees well-formed, and leaves a good one alone', async () => {
  await using server = await startLegacyServer({
    tools: [
      {
        name: `s${HIGH}ay`,
        description: `Says ${HIGH}`,
        inputSchema: {
          type: 'object',
          properties: { a: { type: 'string', description: LOW, enum: [HIGH], default: LOW } },
        },
        run: () => 'said',
      },
      {
        name: 'broken',
        description: LOW,
        inputSchema: { type: 'array', title: HIGH },
        run: () => '',
      },
    ],
  })
  await using mcp = createMcpTools({ servers: { shop: server.url }, log: () => {} })
  const tools = await mcp.listTools()
  expect(tools).toHaveLength(1)
  for (const { name, description, schema } of tools) {
    expect(isWellFormed([name, description, schema])).toBe(true)
  }
  const definition = {
    name: 'fine',
    inputSchema: { type: 'object', properties: { a: { enum: [emoji] } } },
  }
  const source = new AnsweringSource()
  source.listTools = () => Promise.resolve([definition])
  const [fine] = await loadMcpTools(source)
  expect(fine?.schema).toMatchObject({ properties: { a: { enum: [emoji] } } })
})

test('hides no characters of a definition from people, and keeps the names and values', async () => {
  const hide = (text: string): string => `\u0000\u202E\u{E0041}\u001B[31m${text}\u0085`
  const field = { type: 'string', title: hide('A'), description: hide('What'), const: hide('x') }
  const inputSchema = { type: 'object', properties: { a: field } }
  const source = new AnsweringSource()
  source.listTools = () =>
    Promise.resolve([{ name: 'pay', title: hide('Pay'), description: hide('Pays'), inputSchema }])
  const tools = await loadMcpTools(source)
  expect(tools[0]).toMatchObject({
    description: 'Pays',
    schema: {
      properties: { a: { type: 'string', title: 'A', description: 'What', const: hide('x') } },
    },
  })
  expect(interruptOnFrom(tools)['pay']).toMatchObject({
    description: 'MCP tool "Pay" is about to be called',
  })
})

test('makes prompts and resources well-formed', async () => {
  const client = {
    getPrompt: () =>
      Promise.resolve({ messages: [{ role: 'user', content: { type: 'text', text: HIGH } }] }),
    listResources: () => Promise.resolve([{ uri: 'a:b' }]),
    readResource: () => Promise.resolve({ contents: [{ uri: 'a:b', text: HIGH }] }),
  }
  const [message] = await loadMcpPrompt(client, 'p')
  expect(message?.content).toBe('\uFFFD')
  const { documents } = await loadMcpResources(client)
  expect(documents[0]?.pageContent).toBe('\uFFFD')
})
