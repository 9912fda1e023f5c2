import { Annotation, interrupt, MemorySaver, StateGraph } from '@langchain/langgraph'
import type { LangGraphRunnableConfig } from '@langchain/langgraph'
import type { GraphDefinition, OutputFile, Skill } from '@x/mcp-gateway'

/** What one fixture does, in the only node of its graph. */
export interface Fixture {
  readonly description: string
  /** @default no arguments */
  readonly inputSchema?: Skill['inputSchema']
  readonly examples?: readonly string[]
  readonly files?: readonly OutputFile[]
  /** Gives the text of the answer. */
  readonly work: (fixture: Work) => string | Promise<string>
}

interface Work {
  readonly args: Readonly<Record<string, unknown>>
  /** Tells what is done now. */
  readonly status: (text: string) => void
  /** Stops the graph until somebody answered. */
  readonly ask: (message: string, schema: object) => unknown
}

const State = Annotation.Root({
  args: Annotation<Readonly<Record<string, unknown>>>(),
  text: Annotation<string>(),
})

const ask: Work['ask'] = (message, schema) => interrupt({ message, schema })

/** A compiled graph that can ask, as an agent whose only tool has the agent's name. */
export function graphOf(name: string, fixture: Fixture): GraphDefinition {
  const { description, examples, files, inputSchema = { type: 'object', properties: {} } } = fixture
  const graph = new StateGraph(State)
    .addNode('work', async ({ args }, config: LangGraphRunnableConfig) => {
      const status = (text: string): void => config.writer?.({ type: 'status', text })
      return { text: await fixture.work({ args, status, ask }) }
    })
    .addEdge('__start__', 'work')
    .addEdge('work', '__end__')
    .compile({ checkpointer: new MemorySaver() })
  return {
    graph,
    description,
    skills: [{ id: name, name: '', description, inputSchema, ...(examples && { examples }) }],
    input: (input) => ({ args: input.kind === 'arguments' ? input.value : {} }),
    output: ({ text }: typeof State.State) => ({ text, ...(files && { files }) }),
  }
}
