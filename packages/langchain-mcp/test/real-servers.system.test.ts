import { readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { AIMessage } from '@langchain/core/messages'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { everythingStdioCommand, startEverythingServer, temporaryFolder } from '@x/internal/testing'
import { startModernServer } from '@x/mcp-testing'
import { createAgent } from 'langchain'
import { beforeAll, describe, expect, test } from 'vitest'
import { createMcpTools, loadMcpTools, type McpTool, type McpTools } from '../src/index.ts'
import { loadMcpPrompt } from '../src/prompts.ts'
import { loadMcpResources, McpBlob } from '../src/resources.ts'
import { ScriptedModel } from './scripted-model.ts'

const require = createRequire(import.meta.url)

/** Limit of the start of a process, on a machine with much load. */
const START_MS = 300_000

/** Command that starts a server from npm on stdio. */
function program(manifest: string, ...args: string[]): { command: string; args: string[] } {
  return { command: process.execPath, args: [join(dirname(manifest), 'dist', 'index.js'), ...args] }
}

const memory = require.resolve('@modelcontextprotocol/server-memory/package.json')
const filesystem = require.resolve('@modelcontextprotocol/server-filesystem/package.json')

async function ask(mcp: McpTools, content: string): Promise<string> {
  const agent = createAgent({ model: new ScriptedModel(), tools: await mcp.listTools() })
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content }] })
  return messages.at(-1)?.text ?? ''
}

const toolCall = (name: string, args: Record<string, unknown> = {}) =>
  ({ type: 'tool_call', id: 'call-1', name, args }) as const

describe.each(['http', 'stdio'] as const)('server-everything over %s', (transport) => {
  let everything: Awaited<ReturnType<typeof startEverythingServer>> | undefined
  beforeAll(async () => {
    if (transport === 'http') everything = await startEverythingServer()
    return () => everything?.[Symbol.asyncDispose]()
  })
  const open = (): McpTools =>
    createMcpTools({
      servers: {
        everything:
          everything === undefined
            ? { ...everythingStdioCommand(), handshakeMs: START_MS }
            : { url: everything.url },
      },
    })
  const named = (tools: readonly McpTool[], name: string): McpTool => {
    const tool = tools.find((one) => one.name === name)
    if (tool === undefined)
      throw new Error(`${name} is not among ${tools.map((t) => t.name).join()}`)
    return tool
  }

  test('works in an agent, in a ToolNode, and with invoke()', async () => {
    await using mcp = open()
    const tools = await mcp.listTools()
    expect(await ask(mcp, 'call get-sum {"a":2,"b":3}')).toContain('5')
    expect(await named(tools, 'echo').invoke({ message: 'hi' })).toBe('Echo: hi')
    const { messages } = await new ToolNode(tools).invoke({
      messages: [new AIMessage({ content: '', tool_calls: [toolCall('echo', { message: 'hi' })] })],
    })
    expect(messages).toMatchObject([{ content: 'Echo: hi', status: 'success' }])
  })

  test('returns images, links, resources, structured content and annotations as standard blocks', async () => {
    await using mcp = open()
    const tools = await mcp.listTools()
    const answer = async (name: string, args = {}) =>
      (await named(tools, name).invoke(toolCall(name, args))) as {
        content: unknown
        artifact: { type: string; data: unknown }[]
      }
    const image = await answer('get-tiny-image')
    expect(image.content).toEqual(
      expect.arrayContaining([
        { type: 'image', data: expect.stringMatching(/^iVBOR/), mimeType: 'image/png' },
      ]),
    )
    const links = await answer('get-resource-links', { count: 2 })
    expect(JSON.stringify(links.content)).toContain('Resource link')
    expect(links.artifact.at(-1)?.data).toEqual(
      expect.arrayContaining([expect.objectContaining({ type: 'resource_link' })]),
    )
    const reference = await answer('get-resource-reference', { resourceId: 1 })
    expect(JSON.stringify(reference.content)).toContain('demo://resource')
    const structured = await answer('get-structured-content', { location: 'New York' })
    expect(structured.artifact[0]).toMatchObject({
      type: 'mcp_structured_content',
      data: { temperature: expect.any(Number) },
    })
  })

  test('loads resources as documents, and prompts as messages', async () => {
    await using mcp = open()
    const server = mcp.server('everything')
    const { documents } = await loadMcpResources(server)
    expect(documents.length).toBeGreaterThan(0)
    expect(documents[0]).toMatchObject({
      pageContent: expect.stringMatching(/\S/),
      metadata: {
        uri: expect.stringMatching(/^demo:/),
        mimeType: expect.any(String),
        name: expect.any(String),
      },
    })
    const { blobs } = await loadMcpResources(server, { uris: ['demo://resource/dynamic/blob/1'] })
    expect(blobs[0]).toBeInstanceOf(McpBlob)
    expect(await blobs[0]?.text()).toContain('Resource 1')
    const simple = await loadMcpPrompt(server, 'simple-prompt')
    expect(simple).toMatchObject([{ content: expect.any(String) }])
    expect(simple[0]?.getType()).toBe('human')
    const withArgs = await loadMcpPrompt(server, 'args-prompt', { city: 'Paris' })
    expect(withArgs[0]?.text).toContain('Paris')
    const embedded = await loadMcpPrompt(server, 'resource-prompt', {
      resourceType: 'Text',
      resourceId: '1',
    })
    expect(JSON.stringify(embedded.map(({ content }) => content))).toContain('demo://resource')
    await expect(loadMcpPrompt(server, 'no-such-prompt')).rejects.toMatchObject({ code: -32_602 })
  })
})

test('server-memory keeps data over stdio', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'memory.jsonl')
  await using mcp = createMcpTools({
    servers: {
      memory: { ...program(memory), env: { MEMORY_FILE_PATH: file }, handshakeMs: START_MS },
    },
  })
  const entity = { name: 'Ada', entityType: 'person', observations: ['likes pears'] }
  await ask(mcp, `call create_entities ${JSON.stringify({ entities: [entity] })}`)
  expect(await ask(mcp, 'call search_nodes {"query":"pears"}')).toContain('Ada')
  expect(await readFile(file, 'utf8')).toContain('likes pears')
  expect(await ask(mcp, 'call open_nodes {"names":"Ada"}')).toContain('#/names')
})

test('server-filesystem reads and writes in its folder', async () => {
  await using folder = await temporaryFolder()
  await writeFile(join(folder.path, 'notes.md'), '# Notes')
  await using mcp = createMcpTools({
    servers: { files: { ...program(filesystem, folder.path), handshakeMs: START_MS } },
    allow: ({ origin }) => origin.toolName !== 'move_file',
  })
  const names = (await mcp.listTools()).map(({ name }) => name)
  expect(names).toContain('read_text_file')
  expect(names).not.toContain('move_file')
  const path = (name: string): string => JSON.stringify(join(folder.path, name))
  expect(await ask(mcp, `call read_text_file {"path":${path('notes.md')}}`)).toContain('# Notes')
  expect(await ask(mcp, `call read_text_file {"path":"/etc/passwd"}`)).toMatch(/[Aa]ccess denied/)
  await ask(mcp, `call write_file {"path":${path('new.md')},"content":"x"}`)
  expect(await readFile(join(folder.path, 'new.md'), 'utf8')).toBe('x')
})

test('calls tools, resources and prompts of a 2026-07-28 server in the same way', async () => {
  await using modern = await startModernServer()
  await using mcp = createMcpTools({ servers: { calc: { url: modern.url } } })
  expect(await ask(mcp, 'call add {"a":2,"b":3}')).toBe('5')
  const { documents } = await loadMcpResources(mcp.server('calc'))
  expect(documents.map(({ pageContent, metadata }) => [metadata.uri, pageContent])).toEqual([
    ['static://text', 'always the same'],
    ['counter://value', '0'],
  ])
  const [greeting] = await loadMcpPrompt(mcp.server('calc'), 'greet', { name: 'Ada' })
  expect(greeting?.content).toBe('Greet Ada')
  expect(modern.received.some(({ sessionId }) => sessionId !== undefined)).toBe(false)
})

test("returns the same tools, resources and prompts for the SDK's own client", async () => {
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StdioClientTransport({ ...everythingStdioCommand(), stderr: 'ignore' }))
  try {
    const echo = (await loadMcpTools(client)).find(({ name }) => name === 'echo')
    expect(await echo?.invoke({ message: 'hi' })).toBe('Echo: hi')
    const { documents, blobs } = await loadMcpResources(client)
    expect(documents.length + blobs.length).toBeGreaterThan(0)
    const [message] = await loadMcpPrompt(client, 'args-prompt', { city: 'Paris' })
    expect(message?.text).toContain('Paris')
  } finally {
    await client.close()
  }
})
