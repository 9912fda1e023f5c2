// LangGraph's own templates, as `npm create agent-chat-app` writes them, behind `mcp-gateway langgraph.json`. No file of
// them is changed; the model of Anthropic that they ask for is a server on loopback.
import { cp, mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { McpClient } from '@x/mcp-client'
import { expectContains, expectThat, type Check } from './check.ts'

const HOME = fileURLToPath(new URL('../../templates/', import.meta.url))
const TEMPLATES = join(HOME, 'node_modules', 'create-agent-chat-app', 'templates')
const GATEWAY = fileURLToPath(
  new URL('../../../../packages/mcp-gateway/src/cli/main.ts', import.meta.url),
)
/** The entries that the command writes into `langgraph.json`. */
const GRAPHS = {
  agent: 'react-agent/graph.ts',
  memory_agent: 'memory-agent/graph.ts',
  research_agent: 'research-agent/retrieval-graph/graph.ts',
  research_index_graph: 'research-agent/index-graph/graph.ts',
  retrieval_agent: 'retrieval-agent/graph.ts',
}

export const gatewayTemplates: readonly Check[] = [
  {
    group: "LangGraph's templates, unmodified, behind the gateway",
    name: 'offers all graphs, and answers with those that need a model only',
    ms: 120_000,
    run: async () => {
      await using model = await startModel()
      await using project = await startProject(model.url)
      const tools = await project.client.listTools()
      const names = tools.map(({ name }) => name).toSorted()
      expectThat(
        names.join() === Object.keys(GRAPHS).join(),
        `expected all graphs, got ${names.join()}`,
      )
      expectContains(await project.ask('agent', 'Who are you?'), 'I am a model on loopback')
      // It stores a memory first, in the store that the gateway gives its graph.
      const answer = await project.ask('memory_agent', 'Remember my name: Ada')
      expectContains(answer, 'I am a model on loopback')
      expectThat(model.hasCalledTool, 'expected that the model stores a memory')
    },
  },
]

interface Project extends AsyncDisposable {
  readonly client: McpClient
  /** Calls a tool with a message. Returns the answer as JSON. */
  readonly ask: (tool: string, message: string) => Promise<string>
}

/** Writes a project beside the packages that the templates need, and starts the gateway in it. */
async function startProject(modelUrl: string): Promise<Project> {
  const parent = join(HOME, '.projects')
  await mkdir(parent, { recursive: true })
  const folder = await mkdtempDisposable(join(parent, 'project-'))
  const { path } = folder
  const agents = join(path, 'apps', 'agents')
  const shared = join(TEMPLATES, 'monorepo', 'apps', 'agents')
  await cp(shared, agents, { recursive: true })
  for (const name of new Set(Object.values(GRAPHS).map((file) => file.split('/')[0] ?? ''))) {
    await cp(join(TEMPLATES, name), join(agents, 'src', name), { recursive: true })
  }
  const graphs = Object.fromEntries(
    Object.entries(GRAPHS).map(([name, file]) => [name, `./apps/agents/src/${file}:graph`]),
  )
  const config = { node_version: '20', dependencies: ['.'], graphs, env: '.env' }
  await writeFile(join(path, 'langgraph.json'), JSON.stringify(config))
  const keys = ['ANTHROPIC_API_KEY', 'TAVILY_API_KEY', 'OPENAI_API_KEY', 'COHERE_API_KEY']
  const env = [`ANTHROPIC_BASE_URL=${modelUrl}`, ...keys.map((key) => `${key}=a-key-for-tests`)]
  await writeFile(join(path, '.env'), env.join('\n'))
  const args = ['--conditions=mcp-source', GATEWAY, '--stdio', 'langgraph.json']
  const client = new McpClient({ command: process.execPath, args, cwd: path })
  return {
    client,
    ask: async (tool, message) => JSON.stringify(await client.callTool(tool, { message })),
    [Symbol.asyncDispose]: async () => {
      await client.dispose()
      await folder.remove()
    },
  }
}

interface Model extends AsyncDisposable {
  readonly url: string
  /** The model has called a tool of the template. */
  readonly hasCalledTool: boolean
}

/** Starts a model that stores a memory if it has a tool for it, once in a conversation, and else answers with a text. */
async function startModel(): Promise<Model> {
  let hasCalledTool = false
  let answers = 0
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += String(chunk)
    const body = JSON.parse(text)
    const names: string[] = (body.tools ?? []).map(({ name }: { name: string }) => name)
    const isAnswered = text.includes('"tool_result"')
    const memory = names.find((name) => /upsert/i.test(name))
    const block =
      memory === undefined || isAnswered
        ? { type: 'text', text: 'I am a model on loopback' }
        : { type: 'tool_use', id: 'toolu_1', name: memory, input: { content: 'Ada', context: 'x' } }
    hasCalledTool ||= block.type === 'tool_use'
    const message = {
      id: `msg_${++answers}`,
      type: 'message',
      role: 'assistant',
      model: 'loopback',
      content: [block],
      stop_reason: block.type === 'tool_use' ? 'tool_use' : 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 },
    }
    if (body.stream !== true) {
      response.setHeader('content-type', 'application/json').end(JSON.stringify(message))
      return
    }
    const { input = {}, ...start } = 'input' in block ? { ...block } : { ...block, text: '' }
    const delta =
      block.type === 'tool_use'
        ? { type: 'input_json_delta', partial_json: JSON.stringify(input) }
        : { type: 'text_delta', text: block.text }
    const events = [
      { type: 'message_start', message: { ...message, content: [], stop_reason: null } },
      {
        type: 'content_block_start',
        index: 0,
        content_block: block.type === 'tool_use' ? { ...start, input: {} } : start,
      },
      { type: 'content_block_delta', index: 0, delta },
      { type: 'content_block_stop', index: 0 },
      {
        type: 'message_delta',
        delta: { stop_reason: message.stop_reason, stop_sequence: null },
        usage: { output_tokens: 1 },
      },
      { type: 'message_stop' },
    ]
    response.setHeader('content-type', 'text/event-stream')
    for (const event of events) {
      response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    }
    response.end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    get hasCalledTool() {
      return hasCalledTool
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
