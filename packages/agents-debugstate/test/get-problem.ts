import { HTTPException } from 'hono/http-exception'

/** The problem document of the exception that `work` throws. */
export async function getProblem(work: () => unknown): Promise<unknown> {
  try {
    work()
  } catch (error) {
    if (error instanceof HTTPException) return error.getResponse().json()
    throw error
  }
  throw new Error('Nothing was refused')
}
