// A separate entry point, so that tests of packages without LangChain do not load it.
export { SqliteSaver } from './sqlite-saver.ts'
export { SqliteStore } from './sqlite-store.ts'
