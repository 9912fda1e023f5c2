// Everything exported here is public API, and needs `@langchain/langgraph`.
import '../runtime-check.ts' // stays the first import
export { fanOutToolCalls } from './fan-out-tool-calls.ts'
export type { FanOutToolCallsOptions } from './fan-out-tool-calls.ts'
