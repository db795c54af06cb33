-- +goose Up
-- The guard is called only where it has something to say: most updates are neither of a run that has ended nor a change of state
-- without an event, and each call takes some twenty microseconds.
DROP TRIGGER runs_guard ON runs;
CREATE TRIGGER runs_guard BEFORE UPDATE ON runs FOR EACH ROW
    WHEN (OLD.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED') OR NEW.state <> OLD.state AND NEW.version <= OLD.version)
    EXECUTE FUNCTION runs_guard();

-- +goose Down
DROP TRIGGER runs_guard ON runs;
CREATE TRIGGER runs_guard BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION runs_guard();
