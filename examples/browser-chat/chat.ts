import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { Command, INTERRUPT, isInterrupted, MemorySaver } from '@langchain/langgraph'
import { createMcpTools } from '@x/langchain-mcp'
import { interruptOnFrom } from '@x/langchain-mcp/middleware'
import { createAgent, humanInTheLoopMiddleware } from 'langchain'

/** The body of a request: a message, or the answers to the interrupts of the last turn. */
interface Turn {
  readonly thread: string
  readonly message?: string
  readonly resume?: Readonly<Record<string, unknown>>
}

/** Creates an agent that asks before it calls a tool that may destroy or change something. */
export async function createChat(url: string, model: BaseChatModel) {
  const mcp = createMcpTools({ servers: { shop: { url } } })
  const tools = await mcp.listTools()
  const approval = humanInTheLoopMiddleware({ interruptOn: interruptOnFrom(tools) })
  const checkpointer = new MemorySaver() // in production: one that outlives the process
  const agent = createAgent({ model, tools, middleware: [approval], checkpointer })

  /** Answers with a stream of events, until the graph ends or asks. */
  async function chat(request: Request): Promise<Response> {
    const { thread, message = '', resume }: Turn = JSON.parse(await request.text())
    const messages = [{ role: 'user', content: message }]
    const stream = await agent.stream(resume ? new Command({ resume }) : { messages }, {
      configurable: { thread_id: thread },
      streamMode: ['messages', 'custom', 'updates'],
      signal: request.signal, // a closed page cancels the run and its calls
    })
    const body = new ReadableStream({
      async start(controller) {
        for await (const [mode, data] of stream) {
          if (mode === 'custom') controller.enqueue(eventOf('progress', data))
          else if (mode === 'messages') {
            const [part] = data
            if (part.type === 'ai' && part.text !== '') {
              controller.enqueue(eventOf('text', part.text))
            }
          } else if (isInterrupted(data)) controller.enqueue(eventOf('questions', data[INTERRUPT]))
        }
        controller.close()
      },
    })
    return new Response(body, {
      headers: { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' },
    })
  }

  return { chat, close: () => mcp.close() }
}

function eventOf(event: string, data: unknown): Uint8Array {
  return new TextEncoder().encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
}
