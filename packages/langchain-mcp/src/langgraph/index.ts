// Everything exported here is public API, and needs `@langchain/langgraph`.
export { fanOutToolCalls } from './fan-out-tool-calls.ts'
export type { FanOutToolCallsOptions } from './fan-out-tool-calls.ts'
