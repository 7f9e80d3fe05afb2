"""What other trainers and judges' clients send today, answered by the same reward models.

Off unless ``server.compatible_with`` names them.
"""
