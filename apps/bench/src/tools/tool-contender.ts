import type { Contender } from '../client/contenders.ts'
import { ARGS, TEXT } from '../client/protocol.ts'

interface Invokable {
  invoke(args: typeof ARGS): Promise<unknown>
}

/** Calls a LangChain tool as an agent does, and looks at what the model would read. */
export function contenderFrom(tool: Invokable, dispose: () => Promise<void>): Contender {
  return {
    async call() {
      const result = await tool.invoke(ARGS)
      if (result !== TEXT) throw new Error(`A wrong result: ${JSON.stringify(result)}`)
    },
    [Symbol.asyncDispose]: dispose,
  }
}
