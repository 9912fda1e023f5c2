/** True if the tests run on the lowest LangGraph and LangChain that are supported (`LANGGRAPH=lowest`). */
export const isLowestLangGraph: boolean = process.env['LANGGRAPH'] === 'lowest'

/** `createAgent()` of the lowest LangChain gives no status to the message for a failed tool. */
export const FAILED: { readonly status?: 'error' } = isLowestLangGraph ? {} : { status: 'error' }
