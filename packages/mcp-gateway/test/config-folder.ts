import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** The sources of a file that offers the graphs of the folder. */
export const YAML = '# agents\nsources:\n  - { type: langgraph, config: ./langgraph.json }\n'

/** A folder with a configuration, and a graph that says what it was told. */
export interface ConfigFolder extends AsyncDisposable {
  readonly path: string
  /** @returns the path of the written file */
  file(name: string, text: string): Promise<string>
  /** Writes a `langgraph.json` with agents of these names. */
  graphs(...names: readonly string[]): Promise<void>
}

/** A graph, as far as a gateway knows one. */
const GRAPH = `export const graph = {
  channels: { messages: {} },
  async stream(input) {
    const text = input.messages.at(-1).content
    return (async function* () {
      yield [[], 'values', { messages: [{ type: 'ai', content: 'You said: ' + (typeof text === 'string' ? text : text[0].text) }] }]
    })()
  },
}`

export async function configFolder(): Promise<ConfigFolder> {
  const path = await mkdtemp(join(tmpdir(), 'mcp-gateway-'))
  const file = async (name: string, text: string): Promise<string> => {
    await mkdir(dirname(join(path, name)), { recursive: true })
    await writeFile(join(path, name), text)
    return join(path, name)
  }
  await file('graph.mjs', GRAPH)
  return {
    path,
    file,
    graphs: async (...names) => {
      const entries = names.map((name) => {
        return [name, { path: './graph.mjs:graph', description: 'Helps' }]
      })
      await file('langgraph.json', JSON.stringify({ graphs: Object.fromEntries(entries) }))
    },
    [Symbol.asyncDispose]: () => rm(path, { recursive: true }),
  }
}
