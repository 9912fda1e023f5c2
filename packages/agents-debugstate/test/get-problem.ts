import { HTTPException } from 'hono/http-exception'

/** Returns the problem document of the exception that `work` throws. */
export async function getProblem(work: () => unknown): Promise<unknown> {
  try {
    work()
  } catch (error) {
    if (error instanceof HTTPException) return error.getResponse().json()
    throw error
  }
  throw new Error('Nothing was refused')
}
