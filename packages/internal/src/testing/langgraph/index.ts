// Apart from the rest of the kit, so that tests of packages without LangChain do not load it.
export { SqliteSaver } from './sqlite-saver.ts'
export { SqliteStore } from './sqlite-store.ts'
