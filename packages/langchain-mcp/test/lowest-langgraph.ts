/** True if the tests run on the lowest LangGraph that is supported (`LANGGRAPH=lowest`). */
export const isLowestLangGraph: boolean = process.env['LANGGRAPH'] === 'lowest'
