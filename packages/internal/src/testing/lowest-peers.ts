// Replaces LangGraph and LangChain by the lowest versions that the packages support, in the process that imports this first.
import { registerHooks } from 'node:module'

/** The folder of the lowest version of each package, by that of the newest. */
const LOWEST = new Map([
  [
    folderOf(import.meta.resolve('@langchain/langgraph')),
    folderOf(import.meta.resolve('langgraph-lowest')),
  ],
  [folderOf(import.meta.resolve('langchain')), folderOf(import.meta.resolve('langchain-lowest'))],
])

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    for (const [newest, lowest] of LOWEST) {
      if (found.url.startsWith(newest))
        return { ...found, url: lowest + found.url.slice(newest.length) }
    }
    return found
  },
})

function folderOf(url: string): string {
  return url.slice(0, url.indexOf('/dist/') + 1)
}
