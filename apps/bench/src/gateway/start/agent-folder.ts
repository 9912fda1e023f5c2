import { mkdtempDisposable, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { HOME } from '../../install.ts'
import type { StartCase } from './start-case.ts'

/** Files of a user's, to start a server from. */
export interface AgentFolder extends AsyncDisposable {
  /** What the gateway's command reads. */
  readonly config: string
  /** The module of a graph. */
  readonly graph: string
}

/** @param cards URLs of agents of A2A */
export async function agentFolder(
  { agents, count }: StartCase,
  cards: readonly string[],
): Promise<AgentFolder> {
  const folder = await mkdtempDisposable(join(tmpdir(), 'bench-start-'))
  const place = (name: string): string => join(folder.path, name)
  const names = Array.from({ length: count }, (_, index) => `agent-${index}`)
  const graphs = names.map((name) => [name, { path: './graph.mjs:graph', description: 'Echoes' }])
  const source =
    agents === 'a2a'
      ? { type: 'a2a', cards, trustedOrigins: cards.map((card) => new URL(card).origin) }
      : { type: 'langgraph', config: './langgraph.json' }
  await symlink(join(HOME, 'node_modules'), place('node_modules'))
  await writeFile(place('graph.mjs'), agents === 'langgraph' ? LANGGRAPH : BARE)
  await writeFile(place('langgraph.json'), JSON.stringify({ graphs: Object.fromEntries(graphs) }))
  // JSON is YAML.
  await writeFile(place('gateway.yaml'), JSON.stringify({ agents: { sources: [source] } }))
  return {
    config: place('gateway.yaml'),
    graph: place('graph.mjs'),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}

const LANGGRAPH = `import { AIMessage } from '@langchain/core/messages'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'

export const graph = new StateGraph(MessagesAnnotation)
  .addNode('answer', ({ messages }) => ({ messages: [new AIMessage('You said: ' + messages.at(-1)?.text)] }))
  .addEdge(START, 'answer')
  .addEdge('answer', END)
  .compile()
`

const BARE = `export const graph = {
  channels: { messages: {} },
  async stream(input) {
    const content = 'You said: ' + JSON.stringify(input.messages.at(-1).content)
    return (async function* () {
      yield [[], 'values', { messages: [{ type: 'ai', content }] }]
    })()
  },
}
`
