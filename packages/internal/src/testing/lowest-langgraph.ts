// Replaces LangGraph by the lowest version that the packages support, in the process that imports this first.
import { registerHooks } from 'node:module'

const newest = packageFolder(import.meta.resolve('@langchain/langgraph'))
const lowest = packageFolder(import.meta.resolve('langgraph-lowest'))

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    return found.url.startsWith(newest)
      ? { ...found, url: lowest + found.url.slice(newest.length) }
      : found
  },
})

function packageFolder(url: string): string {
  return url.slice(0, url.indexOf('/dist/') + 1)
}
